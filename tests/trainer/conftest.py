"""Runs of the trainer as real processes, on CPUs over gloo, with the Python that has PyTorch (tools/test --all)."""

import contextlib
import json
import os
import random
import shutil
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.trainer.ranks import Launched, Started

HOME = Path(__file__).resolve().parents[2]
HAS_TORCH = find_spec("torch") is not None
os.environ |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
WITHOUT_TORCH = ("test_config.py", "test_image.py")
collect_ignore = (
    []
    if HAS_TORCH
    else [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name not in WITHOUT_TORCH]
)

MODEL = (
    "model=llama-tiny-tied",
    "sequence_length=32",
    "precision=fp32",
    "global_batch=8",
    "steps=12",
    "warmup_steps=2",
    "learning_rate=0.003",
    "checkpoint.every_steps=4",
    "checkpoint.background=false",
    "metrics.every_steps=1",
    "metrics.tensorboard=false",
)
"""A run of twelve steps that takes a second: of a model that is tied, and whose vocabulary is filled up."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a finished run printed."""

    code: int
    lines: list[dict[str, Any]]
    errors: str

    @property
    def result(self) -> dict[str, Any]:
        return self.lines[-1]

    @property
    def curve(self) -> dict[int, float]:
        """Loss by step."""
        return {line["step"]: line["loss"] for line in self.lines if "step" in line}


@dataclass(frozen=True, slots=True)
class Trainer:
    """Starts runs whose checkpoints lie in one folder."""

    dataset: Path
    checkpoints: Path

    def arguments(self, keys: Sequence[str], ranks: int = 1) -> list[str]:
        """The command line of a run; the micro-batch is what the ranks leave of the global one."""
        own = [f"dataset={self.dataset}", f"checkpoint.dir={self.checkpoints}", f"micro_batch={max(1, 8 // ranks)}"]
        return [*MODEL, *own, *keys]

    def launch(
        self, launcher: Sequence[str], *keys: str, ranks: int = 1, module: str = "trainer", **settings: str
    ) -> Launched:
        """Starts a run under a launcher."""
        return Launched([*launcher, "-m", module, *self.arguments(keys, ranks)], environment(**settings), HOME)

    def start(self, *keys: str, ranks: int = 1) -> Started:
        """Starts ranks on their own."""
        return started("trainer", self.arguments(keys, ranks), ranks)

    def __call__(self, *keys: str, ranks: int = 1) -> Run:
        """A run from start to end."""
        return ended(self.start(*keys, ranks=ranks))

    def resumed(self, run: str, of: "Trainer", after: int) -> "Trainer":
        """Takes another's done run over as one that was killed after a step."""
        shutil.copytree(of.folder(run), self.folder(run))
        (self.folder(run) / "done.json").unlink()
        for path in self.folder(run).glob("step-*"):
            if int(path.name.removeprefix("step-")) > after:
                shutil.rmtree(path)
        return self

    def folder(self, run: str) -> Path:
        return self.checkpoints / run


def started(module: str, arguments: Sequence[str], ranks: int) -> Started:
    """Starts ranks with the variables that an operator gives them."""
    port = str(free_port())
    settings = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    each = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    return Started(module, arguments, [environment(MASTER_PORT=port, **settings, **own) for own in each])


def ended(run: Started | Launched) -> Run:
    """Waits for a run; the code is that of the rank that ended worst."""
    code = run.wait() if isinstance(run, Launched) else max(run.wait(), key=abs)
    return Run(code, lines_of(run.out), run.errors)


def torchrun(ranks: int, *options: str) -> list[str]:
    """torchrun with a port of its own, so that tests can run side by side."""
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={ranks}",
        f"--master-port={free_port()}",
        *options,
    ]


def environment(**settings: str) -> dict[str, str]:
    """The test's environment without launchers' variables; one thread a rank, as there are few cores."""
    launchers = ("TRAINER_", "PET_", "OMPI_", "RANK", "RAY_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    # torchrun keeps a store for all its rounds, and tells no node that joins later where it is (PyTorch 2.15)
    kept["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HOME), "DS_ACCELERATOR": "cpu", **settings}


def lines_of(out: str) -> list[dict[str, Any]]:
    """The whole JSON lines; a killed rank may leave half of one."""
    return [json.loads(line) for line in out.splitlines(keepends=True) if line.startswith("{") and line.endswith("}\n")]


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def free_port() -> int:
    """A port below those that Linux gives to connections: until a run listens there, other tests do not take it."""
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of tokens that the project makes itself. No loss is taken of its letters e: as many targets count in no
    two passes, so a mean over passes or ranks is not the mean over targets."""
    from trainer import index, made_up

    folder = tmp_path_factory.mktemp("datasets") / "text"
    index.write(folder, replace(made_up.text(folder, documents=8), padding=ord("e")))
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of images that the project makes itself."""
    from trainer import made_up

    folder = tmp_path_factory.mktemp("datasets") / "images"
    made_up.images(folder, count=64)
    return folder


@pytest.fixture
def train(text: Path, tmp_path: Path) -> Trainer:
    return Trainer(text, tmp_path / "checkpoints")


def plain_tensors(folder: Path) -> dict[str, Any]:
    """A checkpoint's tensors, read whole as any program reads them with PyTorch alone."""
    import torch
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = FileSystemReader(folder)
    state = {
        name: torch.empty(stored.size)  # type: ignore[union-attr]
        for name, stored in reader.read_metadata().state_dict_metadata.items()
    }
    load(state, storage_reader=reader, no_dist=True)
    return state


WAYS = {
    "ddp": ["parallelism=ddp"],
    "fsdp": ["parallelism=fsdp"],
    "zero1": ["parallelism=deepspeed", "deepspeed.stage=1"],
    "zero2": ["parallelism=deepspeed", "deepspeed.stage=2"],
    "zero3": ["parallelism=deepspeed", "deepspeed.stage=3"],
}

MODELS = ("gpt-tiny", "llama-tiny", "llama-tiny-tied", "vit-tiny")


class Trained(Protocol):
    """The whole run of a way at a number of ranks, called "whole"; it is run once, and nobody changes its folder."""

    def __call__(self, way: str, ranks: int, model: str = "llama-tiny-tied", /) -> tuple[Run, Trainer]: ...


@pytest.fixture(scope="session")
def trained(text: Path, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    @cache
    def once(way: str, ranks: int, model: str = "llama-tiny-tied", /) -> tuple[Run, Trainer]:
        dataset = images if model.startswith("vit") else text
        train = Trainer(dataset, tmp_path_factory.mktemp(f"{model}-{way}-{ranks}"))
        return train("run=whole", f"model={model}", *WAYS[way], ranks=ranks), train

    return once


@pytest.fixture(scope="session")
def one_rank(trained: Trained) -> Run:
    """The run of one rank that others are compared with."""
    return trained("ddp", 1)[0]
