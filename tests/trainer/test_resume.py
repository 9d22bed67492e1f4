"""Whatever kills a run, it goes on from the newest whole checkpoint, and its loss curve is the uninterrupted one's."""

import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer.conftest import Run, Trainer, finished, kill, until
from tests.trainer.test_parallel import TOLERANCE, WAYS

pytestmark = pytest.mark.torch


def test_twenty_kills_change_nothing(train: Trainer) -> None:
    keys = ["steps=400", "checkpoint.every_steps=15", "checkpoint.background=true", "sequence_length=128"]
    whole = train("run=whole", *keys)
    source = random.Random(7)
    curve: dict[int, float] = {}

    for _ in range(20):
        process = train.start("run=killed", *keys)
        steps = source.randrange(1, 60)
        out: list[str] = []
        assert process.stdout is not None
        while len(out) < steps and (line := process.stdout.readline()):
            out.append(line)
        kill(process)
        rest, _ = process.communicate()
        lines = [json.loads(line) for line in (*out, *rest.splitlines()) if line.rstrip().endswith("}")]
        for line in lines:
            if "step" in line:
                assert line["loss"] == pytest.approx(whole.curve[line["step"]], rel=TOLERANCE)
                curve[line["step"]] = line["loss"]
    last = train("run=killed", *keys)

    assert last.code == 0, last.errors
    curve |= last.curve
    assert curve == pytest.approx(whole.curve, rel=TOLERANCE)
    assert last.result["resumed_from"]


def test_ranks_may_come_and_go(train: Trainer, one_rank: Run) -> None:
    curve: dict[int, float] = {}
    for ranks, way, steps in ((4, "ddp", 4), (2, "fsdp", 8), (4, "zero2", 12)):
        run = train("run=moving", *WAYS[way], ranks=ranks)
        assert run.code == 0, run.errors
        curve |= {step: loss for step, loss in run.curve.items() if step <= steps}
        assert run.result["resumed_from"] == (steps - 4 or None)
        _forget(train.folder("moving"), after=steps)

    assert curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("before", "after"), [("fsdp", "ddp"), ("zero3", "fsdp"), ("ddp", "zero3"), ("zero2", "zero1")]
)
def test_any_way_resumes_from_any_other(train: Trainer, one_rank: Run, before: str, after: str) -> None:
    train("run=across", *WAYS[before], ranks=2)
    _forget(train.folder("across"), after=4)

    run = train("run=across", *WAYS[after], ranks=2)

    assert run.result["resumed_from"] == 4
    assert run.curve == pytest.approx({step: loss for step, loss in one_rank.curve.items() if step > 4}, rel=TOLERANCE)


def _forget(folder: Path, after: int) -> None:
    """Makes a done run one that was killed after a step."""
    (folder / "done.json").unlink()
    for path in folder.glob("step-*"):
        if int(path.name.removeprefix("step-")) > after:
            shutil.rmtree(path)


def _truncate(folder: Path) -> None:
    file = next(folder.glob("__0_*"))
    os.truncate(file, file.stat().st_size - 1)


def _flip(folder: Path) -> None:
    file = next(folder.glob("__0_*"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _change_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"samples": 96', '"samples": 48'))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "torn": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing: it was never finished"),
    "truncated": (_truncate, "bytes, not"),
    "flipped": (_flip, "was changed: its digest is not the one in manifest.json"),
    "tampered": (_change_manifest, "manifest.json was changed: its digest is not the one it names"),
    "lost": (lambda folder: next(folder.glob("__0_*")).unlink(), "No such file or directory"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoint_is_refused_and_the_one_before_it_used(train: Trainer, one_rank: Run, damage: str) -> None:
    train("run=damaged")
    folder = train.folder("damaged")
    (folder / "done.json").unlink()
    action, reason = DAMAGES[damage]
    action(folder / "step-000000012")

    run = train("run=damaged")

    assert "checkpoint: step 12 is skipped: " in run.errors
    assert reason in run.errors
    assert run.result["resumed_from"] == 8
    assert run.curve == pytest.approx({step: one_rank.curve[step] for step in range(9, 13)}, rel=TOLERANCE)


def test_done_run_ends_at_once_with_success(train: Trainer) -> None:
    first = train("run=done")
    again = train("run=done")

    assert (again.code, again.result, again.curve) == (0, first.result, {})
    assert "done is done" in again.errors


@pytest.mark.parametrize("launcher", ["alone", "torchrun"])
def test_sigterm_saves_and_the_run_goes_on(train: Trainer, launcher: str) -> None:
    ranks = 1 if launcher == "alone" else 2
    keys = ["run=stopped", "steps=100000", "checkpoint.every_steps=100000"]
    process = train.start(*keys, ranks=ranks)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    run = finished(process, timeout=60)

    assert run.code == (75 if launcher == "alone" else 1)  # torchrun has an exit code of its own
    assert "told to stop: saving step" in run.errors
    saved = [int(path.name.removeprefix("step-")) for path in train.folder("stopped").glob("step-*")]
    assert len(saved) == 1
    process = train.start(*keys, ranks=ranks)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["step"] == saved[0] + 1
    kill(process)
    process.communicate()


def test_keep_newest_and_every_nth(train: Trainer) -> None:
    train("run=kept", "checkpoint.every_steps=1", "checkpoint.keep=2", "checkpoint.keep_every=5")

    steps = sorted(int(path.name.removeprefix("step-")) for path in train.folder("kept").glob("step-*"))
    assert steps == [5, 10, 11, 12]


def test_another_model_under_the_same_name_is_refused(train: Trainer) -> None:
    train("run=same")
    (train.folder("same") / "done.json").unlink()

    run = train("run=same", "model=gpt-tiny")

    assert run.code == 2
    assert "has model llama-tiny, this run gpt-tiny: give the run another name" in run.errors


def test_what_a_killed_writer_left_is_removed(train: Trainer) -> None:
    left = train.folder("left") / ".step-000000004.abcdef"
    left.mkdir(parents=True)
    (left / "__0_0.distcp").write_bytes(b"torn")

    run = train("run=left")

    assert run.code == 0
    assert not left.exists()
    until(lambda: not list(train.folder("left").glob(".step-*")), seconds=1)
