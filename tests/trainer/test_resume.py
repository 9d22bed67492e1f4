"""Whatever kills a run, it goes on from the newest whole checkpoint, and its loss curve is the uninterrupted one's."""

import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer.conftest import WAYS, Run, Trained, Trainer, ended, lines_of, torchrun, until
from tests.trainer.test_parallel import TOLERANCE

pytestmark = pytest.mark.torch


KILLS = 20


@pytest.mark.long
def test_twenty_kills_change_nothing(train: Trainer) -> None:
    """Two ranks; kill -9 for one at a random moment, and soon after for the other, as a launcher would."""
    keys = ["steps=200", "checkpoint.every_steps=5", "checkpoint.background=true"]
    whole = train("run=uninterrupted", *keys)
    source = random.Random(7)
    curve: dict[int, float] = {}
    begun, resumed = 0, set()

    for _ in range(KILLS):
        ranks = train.start("run=killed", *keys, ranks=2)
        printed = source.randrange(0, 16)  # with none the kill comes while the ranks start
        until(lambda: ranks.out.count("\n") >= printed)  # noqa: B023  it is called here
        time.sleep(source.random() * 0.2)
        victim = source.randrange(2)
        ranks.send(signal.SIGKILL, [victim])
        time.sleep(source.random() * 0.05)
        ranks.send(signal.SIGKILL)
        ranks.wait()
        steps = {line["step"]: line["loss"] for line in lines_of(ranks.out)}
        assert steps == pytest.approx({step: whole.curve[step] for step in steps}, rel=TOLERANCE)
        curve |= steps
        begun += bool(steps)
        resumed |= {int(step) for step in re.findall("resumed from step ([0-9]+)", ranks.errors)}
    last = train("run=killed", *keys, ranks=2)

    assert last.code == 0, last.errors
    assert curve | last.curve == pytest.approx(whole.curve, rel=TOLERANCE)
    assert last.result["resumed_from"] >= max(resumed)
    assert begun > KILLS / 2
    assert len(resumed) > KILLS / 4


@pytest.mark.claim("one-kind-of-checkpoint")
def test_ranks_may_come_and_go(trained: Trained, train: Trainer, one_rank: Run) -> None:
    """4 ranks, then 2, then 4 again, and each time another way."""
    run, other = trained("ddp", 4)
    curve = {step: loss for step, loss in run.curve.items() if step <= 4}
    for ranks, way, steps in ((2, "fsdp", 8), (4, "zero2", 12)):
        train = Trainer(train.dataset, train.checkpoints / way).resumed("whole", other, after=steps - 4)
        run, other = train("run=whole", *WAYS[way], ranks=ranks), train
        assert run.code == 0, run.errors
        assert run.result["resumed_from"] == steps - 4
        curve |= {step: loss for step, loss in run.curve.items() if step <= steps}

    assert curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.claim("one-kind-of-checkpoint")
@pytest.mark.parametrize(
    ("before", "after"), [("fsdp", "ddp"), ("zero3", "fsdp"), ("ddp", "zero3"), ("zero2", "zero1")]
)
def test_any_way_resumes_from_any_other(
    trained: Trained, train: Trainer, one_rank: Run, before: str, after: str
) -> None:
    run = train.resumed("whole", trained(before, 2)[1], after=4)("run=whole", *WAYS[after], ranks=2)

    assert run.result["resumed_from"] == 4
    assert run.curve == pytest.approx({step: loss for step, loss in one_rank.curve.items() if step > 4}, rel=TOLERANCE)


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


@pytest.mark.claim("checkpoint-is-whole")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoint_is_refused_and_the_one_before_it_used(
    trained: Trained, train: Trainer, one_rank: Run, damage: str
) -> None:
    train.resumed("whole", trained("ddp", 1)[1], after=12)
    action, reason = DAMAGES[damage]
    action(train.folder("whole") / "step-000000012")

    run = train("run=whole")

    assert "checkpoint: step 12 is skipped: " in run.errors
    assert reason in run.errors
    assert run.result["resumed_from"] == 8
    assert run.curve == pytest.approx({step: one_rank.curve[step] for step in range(9, 13)}, rel=TOLERANCE)


@pytest.mark.claim("done-stays-done")
def test_done_run_ends_at_once_with_success(trained: Trained) -> None:
    first, train = trained("ddp", 1)

    again = train("run=whole")

    assert (again.code, again.lines) == (0, [first.result])
    assert "whole is done" in again.errors


ENDLESS = ("run=stopped", "steps=100000", "checkpoint.every_steps=100000")


def _goes_on(train: Trainer, ranks: int) -> None:
    """The run's one checkpoint is where it goes on."""
    saved = [int(path.name.removeprefix("step-")) for path in train.folder("stopped").glob("step-*")]
    assert len(saved) == 1
    again = train.start(*ENDLESS, ranks=ranks)
    until(lambda: "\n" in again.out)
    again.send(signal.SIGKILL)
    again.wait()
    assert lines_of(again.out)[0]["step"] == saved[0] + 1


@pytest.mark.parametrize("told", [[0, 1], [1]])
def test_sigterm_to_any_rank_saves_and_ends_all_of_them_with_a_code_of_its_own(train: Trainer, told: list[int]) -> None:
    ranks = train.start(*ENDLESS, "grace_seconds=100000", ranks=2)
    until(lambda: ranks.out.count("\n") >= 3)

    ranks.send(signal.SIGTERM, told)

    assert ranks.wait() == [75, 75], ranks.errors
    assert "told to stop: saving step" in ranks.errors
    assert "lengthen" not in ranks.errors
    _goes_on(train, ranks=2)


def test_sigterm_under_torchrun_saves_within_the_time_that_it_gives(train: Trainer) -> None:
    """torchrun has an exit code of its own, and says so if it had to kill a rank."""
    launched = train.launch(torchrun(2), *ENDLESS, ranks=2, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="100")
    until(lambda: "\n" in launched.out)

    launched.process.send_signal(signal.SIGTERM)
    run = ended(launched)

    assert run.code == 1
    assert "told to stop: saving step" in run.errors
    assert "SIGKILL" not in run.errors
    _goes_on(train, ranks=2)


def test_time_that_is_too_short_for_a_save_is_told(train: Trainer) -> None:
    ranks = train.start(*ENDLESS, "grace_seconds=0.000001")
    until(lambda: "\n" in ranks.out)
    ranks.send(signal.SIGTERM)

    assert ranks.wait() == [75]
    assert "saving took more than half of the 1e-06 s between SIGTERM and SIGKILL: lengthen them" in ranks.errors


def test_without_a_cadence_it_is_reckoned_from_the_time_between_failures(train: Trainer) -> None:
    """A failure every 36 ms: a run that saves as often as it can, which is at most half of the time."""
    run = train(
        "run=daly", "steps=60", "checkpoint.every_steps=0", "checkpoint.mtbf_hours=0.00001", "checkpoint.keep=99"
    )

    steps = sorted(int(path.name.removeprefix("step-")) for path in train.folder("daly").glob("step-*"))
    assert run.code == 0
    assert len(steps) >= 2
    assert steps[-1] == 60


def test_keep_newest_and_every_nth(train: Trainer) -> None:
    train("run=kept", "checkpoint.every_steps=1", "checkpoint.keep=2", "checkpoint.keep_every=5")

    steps = sorted(int(path.name.removeprefix("step-")) for path in train.folder("kept").glob("step-*"))
    assert steps == [5, 10, 11, 12]


def test_another_model_under_the_same_name_is_refused(trained: Trained, train: Trainer) -> None:
    run = train.resumed("whole", trained("ddp", 1)[1], after=12)("run=whole", "model=gpt-tiny")

    assert run.code == 2
    assert "has model llama-tiny-tied, this run gpt-tiny: give the run another name" in run.errors


def test_what_a_killed_writer_left_is_removed(train: Trainer) -> None:
    left = train.folder("left") / ".step-000000004.abcdef"
    left.mkdir(parents=True)
    (left / "__0_0.distcp").write_bytes(b"torn")

    run = train("run=left")

    assert run.code == 0
    assert not left.exists()
    until(lambda: not list(train.folder("left").glob(".step-*")), seconds=1)
