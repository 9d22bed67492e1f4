"""Under TensorFlow the same model trains along the same curve, and is stopped, seen and resumed as under PyTorch."""

import json
import math
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from tests.by_day import by_day
from tests.trainer.conftest import HOME, Run, Trainer, ended, environment, free_port, lines_of, until
from tests.trainer.ranks import Launched
from trainer import model
from trainer.config import Config
from trainer.presets import PRESETS, Decoder, preset, weights

pytestmark = [
    pytest.mark.torch,
    pytest.mark.drawn,
    pytest.mark.skipif(find_spec("tensorflow") is None, reason="needs tensorflow-cpu"),
]

CONTRACT = yaml.safe_load((HOME / "schemas/trainer-metrics.yaml").read_text())
DECODERS = [name for name, shape in PRESETS.items() if isinstance(shape, Decoder)]


def workers(train: Trainer, number: int, *keys: str) -> list[Launched]:
    """Workers as a TFJob starts them, each with its own TF_CONFIG."""
    cluster = {"worker": [f"127.0.0.1:{free_port()}" for _ in range(number)]}
    return [
        train.launch(
            [sys.executable],
            *keys,
            ranks=number,
            module="trainer.tensorflow",
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(number)
    ]


def altered(train: Trainer, alterations: Sequence[str], *keys: str) -> Run:
    """One worker that is not quite as it is."""
    arguments = [*alterations, "--", *train.arguments(keys)]
    command = [sys.executable, "-m", "tests.trainer.altered_tensorflow", *arguments]
    return ended(Launched(command, environment(TF_CPP_MIN_LOG_LEVEL="3"), HOME))


def told_by(program: str, *arguments: str) -> Any:
    """What a program prints as JSON. It is a process of its own: PyTorch 2.15 and TensorFlow 2.21 crash in one."""
    variables = environment(TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=HOME, env=variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


SIZES = """
import json, sys
from trainer.presets import preset
from trainer.tensorflow_decoder import sizes
print(json.dumps({name: dict(sizes(preset(name))) for name in sys.argv[1:]}))
"""


def test_weights_are_those_of_pytorchs_model() -> None:
    told = told_by(SIZES, *DECODERS)

    for name in DECODERS:
        shape = preset(name)
        made = model.build(shape, "none", False)
        assert told[name] == {
            name: list(model.true_size(shape, name, held.shape)) for name, held in made.named_parameters()
        }
        assert sum(math.prod(size) for size in told[name].values()) == weights(shape)


@pytest.mark.claim("tfjob-trains-the-preset")
@pytest.mark.parametrize("name", by_day(["llama-tiny-tied", "gpt-tiny", "llama-tiny"], "llama-tiny-tied"))
def test_curve_is_that_of_pytorch(train: Trainer, tmp_path: Path, name: str) -> None:
    """From the same weights on, two replicas with two passes each come to the loss, the norm and the rate of one rank
    of PyTorch with one pass, step by step."""
    config, shape = Config(), preset(name)
    made = model.build(shape, "none", False)
    model.fill(made, config.seed, torch.device("cpu"))
    first = {
        name: held.detach()[: model.true_size(shape, name, held.shape)[0]].numpy()
        for name, held in made.named_parameters()
    }
    np.savez(tmp_path / "first.npz", **first)  # type: ignore[arg-type]

    theirs = train("run=theirs", f"model={name}")
    alike = [f"weights={tmp_path / 'first.npz'}"]
    ours = altered(train, alike, "run=ours", f"model={name}")
    parts = ["micro_batch=2", "accumulation=2"]
    in_parts = altered(train, [*alike, "replicas=2"], "run=parts", f"model={name}", *parts)

    for run in (ours, in_parts):
        assert run.code == 0, run.errors
        for key in ("loss", "gradient_norm", "learning_rate"):
            assert [line[key] for line in run.lines[:-1]] == pytest.approx(
                [line[key] for line in theirs.lines[:-1]], rel=1e-3
            ), key
    assert (ours.result["world_size"], in_parts.result["world_size"]) == (1, 2)


@pytest.mark.long
@pytest.mark.claim("tfjob-trains-the-preset")
def test_passes_of_a_step_do_not_take_memory_together(train: Trainer) -> None:
    keys = ["model=gpt-10m", "sequence_length=128", "global_batch=64", "steps=3", "data.workers=0"]
    taken = []
    for passes in (1, 16):
        run = altered(train, [], *keys, f"run=passes-{passes}", f"micro_batch={64 // passes}", f"accumulation={passes}")
        assert run.code == 0, run.errors
        taken.append(int(re.findall(r"^peak (\d+)$", run.errors, re.MULTILINE)[0]))

    assert taken[1] < 0.6 * taken[0]


@pytest.mark.long
@pytest.mark.claim("tfjob-is-seen-and-stopped")
def test_sigterm_saves_on_all_workers_and_the_run_goes_on(train: Trainer) -> None:
    keys = ["model=gpt-tiny", "steps=600", "checkpoint.every_steps=400", "metrics.every_steps=2"]
    whole = ended(workers(train, 1, "run=whole", *keys)[0])
    both = workers(train, 2, "run=stopped", *keys)
    until(lambda: both[0].out.count("\n") >= 20)
    both[1].process.send_signal(signal.SIGTERM)
    stopped = [ended(worker) for worker in both]
    at = int(re.findall(r"^stopped: rank 0: stopped at step (\d+), saved", stopped[0].errors, re.MULTILINE)[0])
    again = [ended(worker) for worker in workers(train, 2, "run=stopped", *keys)]

    assert [run.code for run in stopped] == [75, 75], stopped[0].errors
    assert [run.code for run in again] == [0, 0], again[0].errors
    assert (again[0].result["resumed_from"], again[0].result["world_size"]) == (at, 2)
    assert stopped[0].curve | again[0].curve == pytest.approx(whole.curve, rel=1e-3)
    assert list(train.folder("stopped").glob(".*")) == []


@pytest.mark.long
def test_a_damaged_checkpoint_is_left_out(train: Trainer) -> None:
    keys = ["run=damaged", "model=gpt-tiny"]
    ended(workers(train, 1, *keys)[0])
    (train.folder("damaged") / "done.json").unlink()
    newest = train.folder("damaged") / "tensorflow" / "ckpt-12.data-00000-of-00001"
    newest.write_bytes(bytes(len(newest.read_bytes())))

    again = ended(workers(train, 1, *keys)[0])

    assert again.code == 0, again.errors
    assert "ckpt-12 is left out" in again.errors
    assert again.result["resumed_from"] == 8


@pytest.mark.claim("tfjob-is-seen-and-stopped")
def test_endpoint_and_event_files_are_those_of_the_contract(train: Trainer) -> None:
    port = free_port()
    keys = ["run=seen", "model=gpt-tiny", "steps=100000", f"metrics.port={port}", "metrics.peak_tflops=0.1"]
    [worker] = workers(train, 1, *keys, "metrics.tensorboard=true", "checkpoint.every_steps=3")
    until(lambda: worker.out.count("\n") >= 12)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{CONTRACT['path']}", timeout=60) as answer:
        text = answer.read().decode()
    worker.process.send_signal(signal.SIGTERM)
    assert ended(worker).code == 75
    lines = lines_of(worker.out)

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    values = {
        name: float(value) for name, value in re.findall(r"^trainyard_(\w+?)(?:\{.*\})? (\S+)$", text, re.MULTILINE)
    }
    assert {name: kind for name, kind in kinds.items() if not name.endswith("_created")} == {
        metric["name"]: metric["type"] for metric in CONTRACT["metrics"]
    }
    assert values["step"] >= 12
    assert values["tokens_total"] == values["samples_total"] * 32
    assert 0 < values["loss"] < 6
    assert values["checkpoint_seconds_count"] >= 3
    assert min(values[name] for name in ("gradient_norm", "learning_rate", "model_flops_utilization_ratio")) > 0
    assert {"tokens_per_second", "data_seconds", "gradient_norm", "learning_rate"} <= lines[-1].keys()
    assert list((train.folder("seen") / "tensorboard").glob("events.out.tfevents.*"))


REFUSED = """
import json, sys
from trainer.config import Config
from trainer.errors import ConfigError
from trainer.tensorflow import checked, share
said = []
for keys in json.loads(sys.argv[1]):
    try:
        checked(Config(**keys))
        share(Config(**keys), replicas=2, workers=2, rank=0)
    except ConfigError as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.claim("tfjob-shards-nothing")
def test_what_it_does_not_have_is_refused() -> None:
    refused = [
        ({"parallelism": "fsdp"}, "parallelism is fsdp, but under TensorFlow it can be ddp"),
        ({"precision": "fp16"}, "precision is fp16, but under TensorFlow it can be bf16 or fp32"),
        (
            {"activation_checkpointing": "full"},
            "activation_checkpointing is full, but under TensorFlow it can be none",
        ),
        ({"compile": True}, "compile is True, but under TensorFlow it can be False"),
        ({"model": "vit-tiny"}, "under TensorFlow only decoders train, and vit-tiny is not one"),
        (
            {"model": "gpt-tiny", "sequence_length": 257},
            "sequence_length 257 is longer than the context of gpt-tiny, which is 256",
        ),
        (
            {"micro_batch": 15, "accumulation": 2, "global_batch": 480},
            "micro_batch 15 x accumulation 2 x replicas 2 = 60, but global_batch is 480; "
            "TensorFlow sees no GPU on this worker",
        ),
    ]

    assert told_by(REFUSED, json.dumps([keys for keys, _ in refused])) == [message for _, message in refused]
