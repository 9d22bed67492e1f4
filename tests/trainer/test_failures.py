"""What goes wrong ends as one readable line and an exit code, and never costs the last good checkpoint."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.conftest import WAYS, Trainer, ended, plain_tensors, started, until

pytestmark = pytest.mark.torch


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for three checkpoints of the test's model, which take 1.3 MB each."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.claim("storage-that-is-not-written")
@pytest.mark.root
@pytest.mark.parametrize("ranks", [1, 2])
def test_full_disk_fails_the_save_and_keeps_the_last_good_one(text: Path, small_disk: Path, ranks: int) -> None:
    train = Trainer(text, small_disk)

    run = train("run=full", "checkpoint.keep=9", "checkpoint.every_steps=1", "checkpoint.failures=3", ranks=ranks)

    assert run.code != 0
    assert "was not saved: No space left on device; last good one: step 3" in run.errors
    assert "3 checkpoints in a row were not saved" in run.errors
    assert 'Traceback (most recent call last):\n  File "/trainer' not in run.errors
    (small_disk / "full/step-000000001").rename(small_disk / "full/.step-gone")  # room, as someone would make it
    assert train("run=full", "checkpoint.keep=1", ranks=ranks).result["resumed_from"] == 3


@pytest.mark.claim("storage-that-is-not-written")
@pytest.mark.root
def test_read_only_storage_is_told_before_training(text: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    run = Trainer(text, small_disk)("run=read-only")

    assert (run.code, run.lines) == (6, [])
    assert run.errors == f"error: rank 0: {small_disk}/read-only cannot be written: Read-only file system\n"


def test_slow_storage_is_told_once_and_training_goes_on(train: Trainer) -> None:
    """A save that takes longer than it may, which ends after all."""
    keys = train.arguments(["run=slow", "checkpoint.background=true", "checkpoint.every_steps=6"], 1)

    run = ended(started("tests.trainer.altered", ["slow", *keys], 1))

    assert run.code == 0
    assert run.errors == "checkpoint: storage is slow: step 6 is not written after 1800 s; training goes on\n"
    assert 12 in run.curve
    assert (train.folder("slow") / "step-000000006").is_dir()


@pytest.mark.claim("non-finite-stops")
@pytest.mark.parametrize("way", WAYS)
def test_non_finite_stops_before_the_step(train: Trainer, way: str) -> None:
    """A learning rate that blows the weights up. The step is told a step later, and yet nothing of it is saved."""
    keys = ["run=infinite", "learning_rate=10", "weight_decay=1e18", "gradient_clipping=0", "checkpoint.every_steps=1"]
    run = train(*keys, *WAYS[way], "decay=none", "warmup_steps=0")

    assert run.code == 5
    what = r"step (\d+): the (loss|norm of the gradient) is (nan|inf); the weights are those of step (\d+)"
    told = re.fullmatch(f"error: rank 0: {what}\n", run.errors)
    assert told is not None, run.errors
    saved = [int(path.name.removeprefix("step-")) for path in train.folder("infinite").glob("step-*")]
    assert max(saved) == int(told[4]) == int(told[1]) - 1
    tensors = plain_tensors(train.folder("infinite") / f"step-{max(saved):09}")
    assert all(tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.claim("optimizer-holds-each-weight")
@pytest.mark.parametrize(("way", "ranks"), [("ddp", 1), *((way, 2) for way in WAYS)])
def test_an_optimizer_that_does_not_hold_the_models_weights_is_refused(train: Trainer, way: str, ranks: int) -> None:
    """Embedding and head apart: 31 % more weights for GPT-2, and another model."""
    keys = ["untied", *train.arguments(["run=untied", *WAYS[way]], ranks)]

    run = ended(started("tests.trainer.altered", keys, ranks))

    assert (run.code, run.lines) == (2, [])
    wrong = "the optimizer holds 119,232 weights, but llama-tiny-tied has 102,784"
    assert run.errors.splitlines()[-ranks:] == [f"error: rank {rank}: {wrong}" for rank in range(ranks)]


@pytest.mark.claim("batch-that-does-not-divide")
def test_batch_that_does_not_come_out_is_told_with_the_arithmetic(train: Trainer) -> None:
    run = train("run=batch", "micro_batch=3", "accumulation=2")

    assert run.code == 2
    assert run.errors == "error: rank 0: micro_batch 3 x accumulation 2 x ranks 1 = 6, but global_batch is 8\n"


@pytest.mark.claim("refused-before-it-starts")
@pytest.mark.parametrize(
    ("keys", "code", "message"),
    [
        (["scaling.rule=linear", "scaling.base_learning_rate=0.003", "scaling.base_batch=4"], 2,
         "scaling.rule linear: 0.003 x 8 / 4 = 0.006, but learning_rate is 0.003"),
        (["warmup_steps=12"], 2, "warmup_steps 12 leaves none of the 12 steps"),
        (["model=gpt5"], 2, "model gpt5 is not known; there are "),
        (["sequence_length=257", "dataset=/absent"], 2,
         "sequence_length 257 is longer than the context of llama-tiny-tied, which is 256"),
        (["model=gpt-tiny", "sequence_length=1024", "dataset=/absent"], 2,
         "sequence_length 1024 is longer than the context of gpt-tiny, which is 256"),
        (["dataset=/absent"], 4,
         "/absent: no index.json there; `python -m trainer.tokenise` makes one from a folder of text"),
        (["model=vit-tiny"], 4, "holds tokens, and vit-tiny reads images"),
        (["parallelism=deepspeed", "deepspeed.config=/absent.json"], 2, "deepspeed.config /absent.json: "),
        (["min_nodes=2", "nodes=5"], 2,
         "1 ranks cannot train a global batch of 8: from 2 nodes of 1 ranks on, the sizes that divide it are 2, 4"),
    ],
)  # fmt: skip
def test_what_cannot_train_is_refused_before_it_starts(
    train: Trainer, keys: list[str], code: int, message: str
) -> None:
    run = train("run=refused", *keys)

    assert (run.code, run.lines) == (code, [])
    assert message in run.errors
    assert len(run.errors.splitlines()) == 1


@pytest.mark.claim("deepspeed-file-is-judged")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"train_batch_size": 16}', "train_batch_size is 16, but this run's is 8"),
        ('{"bf16": {"enabled": true}}', "bf16.enabled is True, but precision is fp32"),
        ('{"optimizer": {"type": "Adam"}}', "optimizer belongs to the trainer's own keys; remove it there"),
        ('{"zero_optimization": {"stage": 0}}', "zero_optimization.stage is 1, 2 or 3, not 0"),
        (
            '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}',
            "offload to nvme is not supported",
        ),
    ],
)
def test_deepspeed_file_that_says_otherwise_is_refused(
    train: Trainer, tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(content)

    run = train("run=deepspeed", "parallelism=deepspeed", f"deepspeed.config={file}")

    assert run.code == 2
    assert message in run.errors


def test_dead_peer_ends_the_others(train: Trainer) -> None:
    """kill -9 for one rank; the other one says so, with the code that means: start it again."""
    ranks = train.start("run=peer", "steps=100000", "checkpoint.every_steps=100000", ranks=2)
    until(lambda: "\n" in ranks.out)

    ranks.send(signal.SIGKILL, [1])

    assert ranks.wait() == [7, -signal.SIGKILL]
    assert "error: rank 0: another rank is gone: " in ranks.errors
