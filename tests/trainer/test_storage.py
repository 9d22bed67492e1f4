"""What is damaged, what storage did not give, and what is kept: nothing is lost for a hiccup, or for a high number."""

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.trainer.conftest import Run, Trained, Trainer
from tests.trainer.test_parallel import TOLERANCE
from trainer import storage
from trainer.errors import CheckpointError, StorageError
from trainer.storage import Damaged, Manifest, Storage

pytestmark = pytest.mark.torch


def stored(root: Path, whole: Sequence[int], damaged: Sequence[int] = ()) -> Storage:
    """A run's folder with checkpoints of a file each; a damaged one has an empty manifest."""
    made = Storage(root, "first")
    root.mkdir(parents=True)
    for step in (*whole, *damaged):
        made.part(step).mkdir()
        (made.part(step) / "__0_0.distcp").write_text(str(step))
        files = {"__0_0.distcp": storage.digest_of(made.part(step) / "__0_0.distcp")}
        made.publish(Manifest(step, 8 * step, step, "llama-tiny", 1, 1, "ddp", {}, files))
        if step in damaged:
            (made.folder(step) / "manifest.json").write_text("{}")
    return made


@pytest.mark.parametrize(
    ("whole", "damaged", "keep_every", "left"),
    [
        ([1, 2, 3, 4], [], 0, [4, 3]),
        ([5, 10, 15], [290, 295, 300], 0, [300, 295, 290, 15, 10]),  # a run that began again below damaged ones
        ([5, 10, 15], [7, 12, 20], 0, [20, 15, 12, 10]),
        ([5], [1, 300], 0, [300, 5, 1]),
        ([5, 6, 7, 8], [], 5, [8, 7, 5]),
    ],
)
def test_only_whole_checkpoints_count_for_what_is_kept(
    tmp_path: Path, whole: list[int], damaged: list[int], keep_every: int, left: list[int]
) -> None:
    made = stored(tmp_path / "run", whole, damaged)

    made.retain(keep=2, keep_every=keep_every)

    assert made.steps() == left


def test_a_checkpoint_whose_files_were_found_changed_does_not_count_either(tmp_path: Path) -> None:
    """Its manifest is as it was: only reading all of it shows the damage, which is done once, at the start."""
    made = stored(tmp_path / "run", [1, 2, 3])
    made.damaged.add(3)

    made.retain(keep=2, keep_every=0)

    assert made.steps() == [3, 2, 1]


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"digest": ' + "[" * 100_000, "{}", "[]", "", "\0", '{"files": 3}']
)
def test_a_manifest_that_is_none_is_damage(tmp_path: Path, content: str) -> None:
    made = stored(tmp_path / "run", [1])
    (made.folder(1) / "manifest.json").write_text(content)
    (tmp_path / "run" / "done.json").write_text(content)

    with pytest.raises(Damaged, match=r"manifest\.json cannot be read"):
        made.manifest(1)
    if not content.endswith("}"):
        with pytest.raises(CheckpointError, match=r"done\.json cannot be read"):
            made.done()


def unreadable(path: Path) -> None:
    """Has a path's reading fail with EIO, as when a server is gone: it leads to the reader's memory, from 0 on."""
    path.unlink()
    path.symlink_to("/proc/self/mem")


@pytest.mark.parametrize("name", ["manifest.json", "__0_0.distcp"])
def test_what_storage_does_not_give_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(storage, "PAUSES", (0.0, 0.0))
    made = stored(tmp_path / "run", [1])
    manifest = made.manifest(1)
    unreadable(made.folder(1) / name)

    with pytest.raises(StorageError, match="cannot be read: Input/output error, 3 times"):
        (made.manifest if name == "manifest.json" else lambda _: made.check_digests(manifest, [name]))(1)


def test_storage_that_answers_again_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PAUSES", (0.01,) * 1000)
    made = stored(tmp_path / "run", [1])
    path = made.folder(1) / "manifest.json"
    before = path.read_bytes()
    unreadable(path)
    mended = tmp_path / "mended"
    mended.write_bytes(before)
    threading.Timer(0.1, lambda: mended.rename(path)).start()

    assert made.manifest(1).step == 1


def every_checkpoint(train: Trainer) -> list[Path]:
    return sorted(train.folder("whole").glob("step-*"))


def test_a_run_whose_storage_fails_does_not_begin_again(trained: Trained, train: Trainer) -> None:
    """The newest one cannot be read; an older one could, but weeks may lie between them."""
    train.resumed("whole", trained("ddp", 2)[1], after=12)
    unreadable(every_checkpoint(train)[-1] / "manifest.json")

    run = train("run=whole", ranks=2)

    assert (run.code, run.lines) == (9, [])
    assert "step-000000012/manifest.json cannot be read: Input/output error, 5 times in 7.5 s" in run.errors


@pytest.mark.claim("none-is-usable")
def test_checkpoints_of_which_none_is_usable_are_not_lost(trained: Trained, train: Trainer, one_rank: Run) -> None:
    train.resumed("whole", trained("ddp", 1)[1], after=12)
    for folder in every_checkpoint(train):
        (folder / "manifest.json").write_text("{}")

    refused = train("run=whole")
    asked = train("run=whole", "checkpoint.start_over=true", "checkpoint.every_steps=5")

    assert (refused.code, refused.lines) == (8, [])
    assert refused.errors.count("is skipped: manifest.json cannot be read") == 3
    told = "has checkpoints of 3 steps, the newest 12, and none is usable: "
    assert f"{told}mend one, or set checkpoint.start_over=true to start at step 1" in refused.errors
    assert asked.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)
    assert {5, 10, 12} <= {int(path.name.removeprefix("step-")) for path in every_checkpoint(train)}
    assert train("run=whole", "steps=14").result["resumed_from"] == 12


@pytest.mark.claim("done-stays-done")
def test_a_done_run_goes_on_if_more_steps_are_asked_for(trained: Trained, train: Trainer) -> None:
    shutil.copytree(trained("fsdp", 2)[1].folder("whole"), train.folder("whole"))

    same = train("run=whole", "steps=12")
    more = train("run=whole", "steps=15")
    again = train("run=whole", "steps=15")

    assert (same.result["steps"], same.curve) == (12, {})
    assert more.code == 0, more.errors
    assert (more.result["resumed_from"], list(more.curve)) == (12, [13, 14, 15])
    assert again.lines == [more.result]


def test_a_done_run_without_checkpoints_cannot_go_on(trained: Trained, train: Trainer) -> None:
    train.folder("whole").mkdir(parents=True)
    shutil.copy(trained("ddp", 1)[1].folder("whole") / "done.json", train.folder("whole"))

    run = train("run=whole", "steps=15")

    assert (run.code, run.lines) == (8, [])
    assert "is of a run that was done after 12 steps, but has no checkpoint to go on from" in run.errors
