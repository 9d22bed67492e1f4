"""What lies in the cache folder is used only where it is whole, this user's, and this linter's."""

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.by_day import by_day, sample
from tests.cli.command import HOME, LLAMA, Repository, command, environment
from trainyard.cache import _COMMON, Cache, Digests

pytestmark = pytest.mark.commands


def folder_of(checkout: Repository) -> Path:
    (folder,) = (checkout.root.parent / "cache/trainyard").iterdir()
    return folder


def entries(checkout: Repository) -> list[Path]:
    """Those of jobs and platforms, without what they have in common."""
    return [file for file in folder_of(checkout).glob("*.json") if not file.name.startswith(_COMMON)]


def unchanged(checkout: Repository, **options: str) -> int:
    count: int = checkout.report(**options)["summary"]["unchanged"]
    return count


@pytest.fixture
def broken(checkout: Repository) -> Repository:
    """A repository with findings: a verdict that could be lost."""
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3")
    return checkout


def test_an_entry_with_one_byte_changed_or_lost_is_no_entry(
    broken: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unchanged(broken) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(broken.root.parent / "cache"))
    cache = Cache(broken.root, Digests(broken.root))
    for entry in sorted(entries(broken), key=lambda file: file.stat().st_size)[:1]:
        whole = entry.read_bytes()
        key = json.loads(whole.partition(b"\n")[2])["key"]
        assert cache.entry(key) is not None

        for at in range(0, len(whole), max(1, len(whole) // 300)):
            for sign in (whole[at] ^ 0x01, whole[at] ^ 0x80):
                entry.write_bytes(whole[:at] + bytes([sign]) + whole[at + 1 :])
                assert cache.entry(key) is None, at
            for damaged in (whole[:at], whole[:at] + whole[at + 1 :], whole[:at] + b"0" + whole[at:], whole[at + 1 :]):
                entry.write_bytes(damaged)
                assert cache.entry(key) is None, at
        entry.write_bytes(whole)


def test_what_entries_have_in_common_counts_whole_or_not_at_all(broken: Repository) -> None:
    assert [unchanged(broken), unchanged(broken)] == [1, 2]
    for common in folder_of(broken).glob(f"{_COMMON}*"):
        text = common.read_bytes()
        common.write_bytes(text.replace(b'"]', b'0"]', 1))

    assert [unchanged(broken), unchanged(broken)] == [0, 2]


def test_runs_that_are_killed_beside_others_leave_a_sound_cache(broken: Repository) -> None:
    expected = broken.report("--no-cache")["findings"]
    assert expected
    for seconds in (0.1, 0.3, 0.5, 0.8):
        runs = [
            subprocess.Popen(
                [*command(), "--format=json"],
                cwd=broken.root,
                env=environment(broken.root.parent),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        time.sleep(seconds)
        for run in runs[:2]:
            run.kill()
        for run in runs[:2]:
            run.communicate(timeout=60)
        out, errors = runs[2].communicate(timeout=60)
        assert (json.loads(out)["findings"], errors) == (expected, b"")

    for common in folder_of(broken).glob(f"{_COMMON}*"):
        assert hashlib.sha256(common.read_bytes()).hexdigest().startswith(common.stem.removeprefix(_COMMON))
    for entry in entries(broken):
        seal, _, kept = entry.read_bytes().partition(b"\n")
        assert hashlib.sha256(kept).hexdigest().encode() == seal
    last = broken.report()
    assert (last["findings"], last["summary"]["unchanged"]) == (expected, 2)


def test_what_killed_runs_left_is_removed_by_a_later_one(broken: Repository) -> None:
    broken.lint()
    old, new = (folder_of(broken) / f".new-1-{name}" for name in ("old", "new"))
    for file in (old, new):
        file.write_text("half")
    os.utime(old, (0, 0))

    with (broken.root / LLAMA / "job.yaml").open("a") as out:
        out.write("# another line\n")
    broken.lint()

    assert (old.exists(), new.exists()) == (False, True)


OPEN = [("trainyard", 0o777), ("repository", 0o770), ("repository", 0o702)]


@pytest.mark.parametrize("folder_and_mode", by_day(OPEN, *sample(OPEN, 1)), ids=str)
def test_a_folder_that_others_may_write_is_not_used(broken: Repository, folder_and_mode: tuple[str, int]) -> None:
    level, mode = folder_and_mode
    assert [unchanged(broken), unchanged(broken)] == [1, 2]
    folder = folder_of(broken)

    (folder if level == "repository" else folder.parent).chmod(mode)

    assert [unchanged(broken), unchanged(broken)] == [0, 0]


def test_a_new_folder_is_its_users_alone(unjudged: Repository) -> None:
    before = os.umask(0o000)
    try:
        unjudged.lint()
    finally:
        os.umask(before)

    assert [path.stat().st_mode & 0o777 for path in (folder_of(unjudged), folder_of(unjudged).parent)] == [0o700, 0o700]
    assert unchanged(unjudged) == 2


@pytest.mark.root
def test_a_folder_of_another_user_is_not_used(broken: Repository) -> None:
    """Whoever makes it first in a place that many may write, such as /tmp, decides no verdict of others."""
    assert [unchanged(broken), unchanged(broken)] == [1, 2]

    for path in (folder_of(broken).parent, folder_of(broken), *folder_of(broken).iterdir()):
        os.chown(path, 65534, 65534)

    assert [unchanged(broken), unchanged(broken)] == [0, 0]


def test_a_linter_of_the_same_size_and_time_is_another_linter(broken: Repository, tmp_path: Path) -> None:
    """As in images whose files all have one date."""
    for part in ("tools/trainyard", "schemas"):
        shutil.copytree(HOME / part, tmp_path / "linter" / part)
    (tmp_path / "linter/.tools").mkdir()
    (tmp_path / "linter/.tools/bin").symlink_to(HOME / ".tools/bin")
    tools = {"PYTHONPATH": str(tmp_path / "linter/tools")}
    assert [unchanged(broken, **tools) for _ in range(2)] == [0, 2]
    file = tmp_path / "linter/tools/trainyard/rules/gang/requests.py"
    facts = file.stat()

    file.write_text(file.read_text().replace("a", "b", 1))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert (file.stat().st_size, file.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)
    assert unchanged(broken, **tools) == 0
