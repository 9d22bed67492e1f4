"""Our verdict on configurations against that of the DeepSpeed package, where it is installed."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from trainyard.catalogues import deepspeed as facts
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules.index import all_rules, problems
from trainyard.workload.of_unit import workloads

pytestmark = pytest.mark.torch

BASE: dict[str, Any] = {"train_batch_size": 8, "gradient_accumulation_steps": 2}
PARSED = ("BAT003", "DSP003", "DSP006", "DSP018")
"""Rules on what the package decides when it reads the file. DSP008 also knows what it decides with the model."""
POOL: tuple[Any, ...] = (
    *(0, 1, 2, 3, 4, -1, 0.5, 1.5, 5e8, True, False, [], {}),
    *("1", "true", "no", "cpu", "nvme", "none", "fp16", "bf16", "sum", "perhaps"),
)
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "one", "namespace": "a"},
    "spec": {
        "completions": 1,
        "completionMode": "Indexed",
        "template": {
            "spec": {
                "volumes": [{"name": "ds", "configMap": {"name": "ds"}}],
                "containers": [
                    {
                        "name": "trainer",
                        "image": "registry.example.com/deepspeed:0.19.8",
                        "command": ["torchrun", "--nproc_per_node=1"],
                        "args": ["train.py", "--deepspeed", "--deepspeed_config=/ds/ds.json"],
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                        "volumeMounts": [{"name": "ds", "mountPath": "/ds"}],
                    }
                ],
            }
        },
    },
}


def ours(config: dict[str, Any], *ids: str) -> list[str]:
    """What the rules say about a job of one rank with this configuration, at error."""
    data = {"ds.json": json.dumps(config)}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ds", "namespace": "a"}, "data": data}
    unit = Unit("one", False, (Object.of(JOB, 0), Object.of(config_map, 1)))
    found = tuple(workloads(unit))
    rules = (rule for rule in all_rules().values() if rule.severity is Severity.ERROR)
    return [
        f"{rule.id} {problem.message}" for rule in rules if rule.id in ids for problem in problems(rule, unit, found)
    ]


def theirs(config: dict[str, Any]) -> str:
    """Why the package refuses the configuration for a world of one rank; empty where it takes it."""
    package = pytest.importorskip("deepspeed.runtime.config")
    try:
        package.DeepSpeedConfig(deepcopy(config))
    except Exception as refused:
        return f"{type(refused).__name__} {refused}"
    return ""


def variants() -> Iterator[dict[str, Any]]:
    """Every key of a checked section with every value of the pool, and keys that sections do not have."""
    for section, known in facts.sections().items():
        if known.unknown != "refused":
            continue
        for name, key in [*known.keys.items(), ("no_such_key", None)]:
            for value in POOL:
                if key is None or not (key.type == "map" or key.type == "any"):
                    yield with_value(section, name, value)
    for value in POOL:  # but for booleans and halves as counts: the package takes them or not by what comes out
        for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
            if not isinstance(value, bool | float):
                yield {**BASE, name: value}
        yield {**BASE, "gradient_allreduce_op": value}
        yield with_value("checkpoint", "tag_validation", value)
    for name, key in facts.sections()[""].keys.items():
        if key.removed:
            yield {**BASE, name: {}}


def with_value(section: str, name: str, value: Any) -> dict[str, Any]:
    config = deepcopy(BASE)
    tree = config
    for step in section.split("."):
        tree = tree.setdefault(step, {})
    tree[name] = value
    return config


def test_what_we_refuse_is_refused_and_what_is_refused_we_refuse() -> None:
    pytest.importorskip("deepspeed.runtime.config")
    wrong = []
    for config in variants():
        reason = theirs(config)
        said = ours(config, *PARSED)
        if bool(reason) != bool(said) and not ours(config, "DSP008"):
            wrong.append(f"{json.dumps(config)}: theirs {reason[:200]!r}, ours {said}")
    assert wrong == []


@pytest.mark.parametrize("seed", range(5))
def test_batches(seed: int) -> None:
    pytest.importorskip("deepspeed.runtime.config")
    chosen = random.Random(seed)
    for _ in range(200):
        keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        config: dict[str, Any] = {key: chosen.randint(1, 12) for key in keys if chosen.random() < 0.7}
        config["zero_optimization"] = {"stage": chosen.randint(0, 3)}
        if "train_batch_size" in config or "train_micro_batch_size_per_gpu" in config:
            assert bool(theirs(config)) == bool(ours(config, "BAT003")), config


REFUSED_AT_ONCE: list[dict[str, Any]] = [
    {"fp16": {"enabled": True}, "bf16": {"enabled": True}},
    {"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}},
    {"gradient_allreduce_op": "sum", "compile": {"deepcompile": True}},
    {"fp16": {"fp16_master_weights_and_grads": True}},
    {"bf16": {"bf16_optimizer_states": True}, "zero_optimization": {"stage": 1}},
    {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}},
    {"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"device": "cpu"}}},
    {"zero_optimization": {"stage": 3, "compute_grad_norm": False}},
    {"zero_optimization": {"stage": 1, "reduce_bucket_size": 0}},
    {"fp16": {"enabled": True, "loss_scale_window": 0}},
]


@pytest.mark.parametrize("config", REFUSED_AT_ONCE, ids=json.dumps)
def test_what_does_not_go_together(config: dict[str, Any]) -> None:
    whole = BASE | config
    assert theirs(whole)
    assert ours(whole, "DSP008")


def test_the_catalogue_has_the_keys_of_the_package() -> None:
    zero = pytest.importorskip("deepspeed.runtime.zero.config")
    precision = pytest.importorskip("deepspeed.runtime.precision_config")
    models = {
        "zero_optimization": zero.DeepSpeedZeroConfig,
        "fp16": precision.DeepSpeedFP16Config,
        "bf16": precision.DeepSpeedBF16Config,
    }
    for section, model in models.items():
        theirs = {field.alias or name for name, field in model.model_fields.items()}
        assert {name for name, key in facts.sections()[section].keys.items() if not key.removed} == theirs
