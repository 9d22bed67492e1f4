"""What a rank sets for its own process, and what it does when its launcher or its peers are gone."""

import gc
import json
import mmap
import os
import signal
import weakref
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from tests.trainer.conftest import Trainer, lines_of, torchrun, until
from trainer import group, process
from trainer.config import Checkpoint, Config
from trainer.launch import Ranks

pytestmark = pytest.mark.torch

RANKS = Ranks(0, 4, 0, 4, "torchrun")


@pytest.mark.claim("variables-of-pytorch")
def test_variables_of_pytorch_are_set_where_nobody_has_set_them() -> None:
    config = Config(run="one", checkpoint=Checkpoint(dir="/checkpoints"))
    nothing: dict[str, str] = {}
    own = {"PYTORCH_ALLOC_CONF": "backend:native", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
           "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/x", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}  # fmt: skip
    set_before = dict(own)

    process.set_variables(config, nothing)
    process.set_variables(config, own)

    assert nothing == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": "/checkpoints/one/flight-recorder/rank-",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    }
    assert own == set_before


def test_variables_are_ones_that_this_pytorch_reads() -> None:
    """Its libraries hold their names, and not that of one that nobody reads."""
    names: dict[str, str] = {"TORCH_FR_BUFER_SIZE": ""}
    process.set_variables(Config(), names)
    read = set()
    for library in ("torch_cpu", "c10"):
        with (Path(torch.__file__).parent / f"lib/lib{library}.so").open() as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            read |= {name for name in names if held.find(f"\0{name}\0".encode()) >= 0}

    assert names.keys() - read == {"TORCH_FR_BUFER_SIZE"}


class Node:
    """Garbage once it is let go, for it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.claim("garbage-when-due")
def test_garbage_is_collected_when_it_is_due_and_not_before() -> None:
    there = []
    with process.collecting(5) as collect:
        seen = weakref.ref(Node())
        for step in (4, 5):
            collect(step)
            there.append(seen() is not None)
        enabled = gc.isenabled()

    assert there == [True, False]
    assert not enabled
    assert gc.isenabled()


def test_python_collects_when_it_likes_if_nothing_is_asked() -> None:
    with process.collecting(0) as collect:
        collect(1)
        assert gc.isenabled()


@pytest.mark.parametrize(
    ("asked", "offloads", "expected"), [(0, False, 0), (3, False, 3), (3, True, 3), (0, True, None)]
)
def test_an_offloaded_optimizer_has_its_share_of_the_cores(asked: int, offloads: bool, expected: int | None) -> None:
    share = max(1, process.cores() // 4)

    assert process.threads(Config(threads=asked), RANKS, offloads) == (share if expected is None else expected)
    assert 1 <= process.cores() <= (os.cpu_count() or 1)


TF32 = [(False, "cuda", False), (True, "cuda", True), (True, "cpu", False)]


@pytest.mark.parametrize(("asked", "device", "expected"), TF32)
def test_tf32_is_what_the_key_says_and_on_gpus_alone(asked: bool, device: str, expected: bool) -> None:
    try:
        group.set_precision(asked, torch.device(device))

        assert torch.backends.cuda.matmul.allow_tf32 == expected  # as torch.compile asks
        assert torch.backends.cuda.matmul.fp32_precision == ("tf32" if expected else "ieee")  # as cuBLAS is told
    finally:
        group.set_precision(False, torch.device("cpu"))


@pytest.mark.parametrize("when", ["training", "starting"])
def test_ranks_end_with_a_torchrun_that_is_killed(train: Trainer, when: str) -> None:
    """kill -9 for torchrun alone: nobody is left who would end its ranks."""
    launched = train.launch(torchrun(2), "run=orphans", "steps=1000000", "checkpoint.every_steps=1000000", ranks=2)
    agent = psutil.Process(launched.process.pid)
    until(lambda: len(agent.children()) == 2)
    ranks = agent.children()
    until(lambda: all(rank.num_threads() > 1 for rank in ranks))  # they look at their launcher, and import PyTorch
    if when == "training":
        until(lambda: len(lines_of(launched.out)) >= 2)

    agent.kill()
    launched.process.wait()

    until(lambda: not any(rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE for rank in ranks))
    if when == "training":
        assert "torchrun is gone" in launched.errors or "another rank is gone" in launched.errors


@pytest.mark.claim("hanging-peer")
def test_a_peer_that_hangs_is_given_up_after_the_time_of_a_step(train: Trainer) -> None:
    """SIGSTOP for one rank: it holds its connections and says nothing. Ranks may take much longer to start."""
    keys = ["run=hangs", "steps=1000000", "checkpoint.every_steps=1000000", "timeout_seconds=3"]
    ranks = train.start(*keys, "start_timeout_seconds=100000", ranks=2)
    until(lambda: ranks.out.count("\n") >= 2)

    ranks.send(signal.SIGSTOP, [1])
    until(lambda: ranks.processes[0].exitcode is not None)
    ranks.send(signal.SIGKILL, [1])

    assert ranks.wait() == [7, -signal.SIGKILL], ranks.errors
    assert "error: rank 0: another rank is gone: " in ranks.errors


def test_an_error_of_one_rank_ends_all_of_them(images: Path, tmp_path: Path) -> None:
    """An image that is none: the rank that reads it says so, and the other does not wait for it half an hour."""
    folder = tmp_path / "images"
    index = json.loads((images / "index.json").read_text())
    for file in index["files"]:
        path = folder / file["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((images / file["name"]).read_bytes())
    path.write_bytes(b"torn" * (file["bytes"] // 4) + b"x" * (file["bytes"] % 4))
    train = replace(Trainer(folder, tmp_path), dataset=folder)

    ranks = train.start("run=torn", "model=vit-tiny", "steps=1000", "timeout_seconds=1800", ranks=2)

    assert sorted(ranks.wait()) == [4, 7], ranks.errors
    assert "not an image" in ranks.errors
