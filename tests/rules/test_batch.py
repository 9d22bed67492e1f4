"""BAT rules: the arithmetic of batches, learning rate and schedule."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.judging import judge, judge_good_job_with
from tests.rules.telling import check_told, manifests

WHOLE = st.integers(min_value=1, max_value=64)
TRAINING_JOB = "TrainingJob/llama-sft spec"


def training_job(**spec: object) -> str:
    return json.dumps({"kind": "TrainingJob", "spec": spec})


@given(WHOLE, WHOLE, WHOLE, WHOLE)
def test_a_batch_that_the_ranks_take_is_right(micro: int, accumulation: int, nodes: int, gpus: int) -> None:
    batch = {"micro": micro, "accumulation": accumulation, "global": micro * accumulation * nodes * gpus}
    assert judge_good_job_with("BAT001", training_job(batch=batch, nodes=nodes, gpusPerNode=gpus)) == []


@given(WHOLE, WHOLE, WHOLE, WHOLE, st.integers(min_value=1, max_value=10**6))
def test_any_other_batch_is_wrong(micro: int, accumulation: int, nodes: int, gpus: int, off: int) -> None:
    product = micro * accumulation * nodes * gpus
    batch = {"micro": micro, "accumulation": accumulation, "global": product + off}
    assert judge_good_job_with("BAT001", training_job(batch=batch, nodes=nodes, gpusPerNode=gpus)) == [
        f"error: micro {micro} x accumulation {accumulation} x ranks {nodes * gpus} = {product},"
        f" but global is {product + off} @ {TRAINING_JOB}.batch.global"
    ]


@pytest.mark.parametrize("batch", [{"micro": None}, {"micro": "auto"}, {"global": None}, {"accumulation": 0}])
def test_a_batch_that_is_not_whole_is_left_to_the_schema(batch: dict[str, object]) -> None:
    assert judge_good_job_with("BAT001", training_job(batch=batch)) == []


@given(st.floats(min_value=1e-7, max_value=1), st.integers(1, 10**5), st.sampled_from(["linear", "sqrt"]))
def test_a_learning_rate_that_follows_its_rule(base: float, batch: int, name: str) -> None:
    factor = 256 / batch if name == "linear" else math.sqrt(256 / batch)
    scaling = {"rule": name, "baseLearningRate": base, "baseBatch": batch}
    right = training_job(learningRate=base * factor, learningRateScaling=scaling)
    wrong = training_job(learningRate=base * factor * 1.001, learningRateScaling=scaling)
    assert judge_good_job_with("BAT002", right) == []
    assert len(judge_good_job_with("BAT002", wrong)) == 1


def test_a_learning_rate_left_over_from_another_batch() -> None:
    scaling = {"rule": "linear", "baseLearningRate": "1e-5", "baseBatch": 64}
    assert judge_good_job_with("BAT002", training_job(learningRate="1e-5", learningRateScaling=scaling)) == [
        "error: the linear rule gives 1e-05 x 256 / 64 = 4e-05, but learningRate is 1e-05"
        f" @ {TRAINING_JOB}.learningRate"
    ]


@pytest.mark.parametrize(("warmup", "steps", "count"), [(1000, 1000, 1), (999, 1000, 0), (0, 1000, 0), (10, None, 0)])
def test_warm_up_against_the_run(warmup: int, steps: int | None, count: int) -> None:
    assert len(judge_good_job_with("BAT005", training_job(warmupSteps=warmup, steps=steps))) == count


def deepspeed(config: dict[str, object], *arguments: str, mount: str = "/etc/ds", **container: object) -> str:
    """The good job (32 ranks) with a mounted DeepSpeed configuration, as documents to merge."""
    config_map = {
        "kind": "ConfigMap",
        "metadata": {"name": "llama-sft-deepspeed", "namespace": "research"},
        "data": {"ds_config.json": json.dumps(config)},
    }
    trainer = {
        "name": "trainer",
        "args": ["train.py", *arguments],
        "volumeMounts": [
            {"name": "ds", "mountPath": mount, **({"subPath": "ds_config.json"} if mount.endswith(".json") else {})}
        ],
        **container,
    }
    volumes = [{"name": "ds", "configMap": {"name": "llama-sft-deepspeed"}}]
    job = {"kind": "Job", "spec": {"template": {"spec": {"containers": [trainer], "volumes": volumes}}}}
    return f"{json.dumps(config_map)}\n---\n{json.dumps(job)}"


DATA = "ConfigMap/llama-sft-deepspeed data[ds_config.json].train_batch_size"


@pytest.mark.parametrize(
    ("config", "arguments", "said"),
    [
        (
            {"train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2},
            [],
            "micro 4 x accumulation 2 x ranks 32 = 256, but train_batch_size is 512",
        ),
        ({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}, [], None),
        (
            {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2},
            [],
            "train_batch_size 8 / (micro 2 x ranks 32) = 0.125,"
            " but the accumulation must be a whole number of at least 1",
        ),
        ({"train_batch_size": 192, "train_micro_batch_size_per_gpu": 2}, [], None),
        (
            {"train_batch_size": 100, "gradient_accumulation_steps": 2},
            [],
            "train_batch_size 100 / (accumulation 2 x ranks 32) = 1.5625,"
            " but the micro-batch must be a whole number of at least 1",
        ),
        ({"train_batch_size": 128, "gradient_accumulation_steps": 4}, [], None),
        (
            {"train_batch_size": 48},
            [],
            "train_batch_size 48 / ranks 32 = 1.5, but the micro-batch must be a whole number of at least 1",
        ),
        (
            {"train_batch_size": 32},
            ["--per_device_train_batch_size=2", "--gradient_accumulation_steps", "2"],
            "micro 2 x accumulation 2 x ranks 32 = 128, but train_batch_size is 32",
        ),
        ({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4}, [], None),
        ({"train_batch_size": 16}, ["--tensor-model-parallel-size=8"], None),
        ({"zero_optimization": {"stage": 3}}, [], None),
        ({"zero_optimization": {"stage": 3}}, ["--deepspeed_config=/etc/ds/ds_config.json"], None),
    ],
)
def test_deepspeed_batches(config: dict[str, object], arguments: list[str], said: str | None) -> None:
    expected = [f"error: {said} @ {DATA}"] if said else []
    assert judge_good_job_with("BAT003", deepspeed(config, *arguments)) == expected


def test_a_batch_that_nobody_gives() -> None:
    text = deepspeed({"gradient_accumulation_steps": 2}, "--deepspeed", "--deepspeed_config=/etc/ds/ds_config.json")
    assert judge_good_job_with("BAT003", text) == [
        "error: neither train_batch_size nor train_micro_batch_size_per_gpu is given, and DeepSpeed needs one"
        " @ ConfigMap/llama-sft-deepspeed data[ds_config.json].gradient_accumulation_steps"
    ]


def test_a_deepspeed_configuration_on_the_command_line() -> None:
    inline = '--deepspeed_config={"train_batch_size": 48}'
    assert judge_good_job_with("BAT003", deepspeed({"zero_optimization": {}}, inline)) == [
        "error: train_batch_size 48 / ranks 32 = 1.5, but the micro-batch must be a whole number of at least 1"
        " @ Job/llama-sft spec.template.spec.containers[0].args[1].train_batch_size"
    ]


def test_a_configuration_that_is_no_json_is_left_alone() -> None:
    broken = deepspeed({}).replace('"data": {"ds_config.json": "{}"}', '"data": {"ds_config.json": "{train_batch"}')
    assert judge_good_job_with("BAT003", broken) == []


@pytest.mark.parametrize(
    ("argument", "mount", "container", "said"),
    [
        ("ds_config.json", "/etc/ds", {}, "counts from a directory of the image"),
        ("ds_config.json", "/app/ds_config.json", {}, "counts from a directory of the image"),
        ("ds_config.json", "/etc/ds", {"workingDir": "/app"}, "counts from workingDir /app"),
        ("ds_config.json", "/etc/ds", {"workingDir": "/etc/ds"}, None),
        ("/etc/ds/ds_config.json", "/etc/ds", {}, None),
        ("other.json", "/etc/ds", {}, None),
    ],
)
def test_where_deepspeed_looks(argument: str, mount: str, container: dict[str, object], said: str | None) -> None:
    text = deepspeed({"train_batch_size": 256}, f"--deepspeed_config={argument}", mount=mount, **container)
    path = mount if mount.endswith(".json") else f"{mount}/ds_config.json"
    place = "Job/llama-sft spec.template.spec.containers[0].args[1]"
    expected = [f"warning: {argument} {said}, but the file is mounted at {path} @ {place}"] if said else []
    assert judge_good_job_with("BAT006", text) == expected


ELASTIC = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: research}
spec:
  elasticPolicy: {minReplicas: %d, maxReplicas: %d, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/train:1
            command: [torchrun, --nproc_per_node=8, train.py, %s]
            resources: {limits: {nvidia.com/gpu: 8}}
"""
WORKER = "PyTorchJob/bert spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"


@pytest.mark.parametrize(
    ("least", "most", "arguments", "said"),
    [
        (
            2,
            8,
            "--batch-size-per-gpu=32",
            "2 to 8 nodes take a batch of 32 a GPU, so the global batch may change 4-fold while the job runs",
        ),
        (4, 4, "--batch-size-per-gpu=32", None),
        (2, 8, "--epochs=3", None),
        (1, 4, "--micro-batch-size=2, --global-batch-size=1536", None),
        (
            2,
            4,
            "--global-batch-size=512",
            "a global batch of 512 cannot be shared by 3 nodes: 512 / ranks 24 = 21.3333",
        ),
    ],
)
def test_elastic_batches(least: int, most: int, arguments: str, said: str | None) -> None:
    expected = [f"warning: {said} @ {WORKER}.command[3]"] if said else []
    assert judge("BAT004", ELASTIC % (least, most, arguments)) == expected


@pytest.mark.parametrize("file", manifests("batch"), ids=lambda file: file.stem)
def test_what_is_said_about_batches(file: Path) -> None:
    check_told(file, "BAT", "DSP")
