"""What an upgrade does to files, on bases of a few lines: nothing that somebody wrote is lost, at no moment."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.said import Said, said
from trainyard.upgrade import write
from trainyard.upgrade.command import main
from trainyard.upgrade.record import NAME, read, release

OLD = {
    "base/run/job.yaml": "# yaml-language-server: $schema=../../schemas/a/job.json\nold\n",
    "base/run/same.yaml": "same\n",
    "base/gone/only.yaml": "gone\n",
    "overlays/efa/fabric.yaml": "old\n",
    "schemas/a/job.json": "{}\n",
    "schemas/b/not-named.json": "{}\n",
    "schemas/trainyard.dev/team.json": "{}\n",
}
NEW = {name: text for name, text in OLD.items() if name != "base/gone/only.yaml"} | {
    "base/run/job.yaml": "# yaml-language-server: $schema=../../schemas/a/job.json\nnew\n",
    "base/more/more.yaml": "more\n",
    "overlays/efa/fabric.yaml": "new\n",
}
EXAMPLES = {"clusters/one/facts.yaml": "one\n", "jobs/team/job/job.yaml": "a job\n"}
VENDORED = sorted(set(OLD) - {"schemas/b/not-named.json"})
JOB = "base/run/job.yaml"


def lay(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def tree(root: Path) -> dict[str, str]:
    """Every file but Git's, with its text or where it leads."""
    found = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if not name.startswith(".git/") and (file.is_symlink() or not file.is_dir()):
            found[name] = f"-> {os.readlink(file)}" if file.is_symlink() else file.read_text()
    return found


class Vendored:
    """A repository that vendors small bases, of which there are two versions."""

    def __init__(self, place: Path) -> None:
        self.root = place / "repository"
        self.old, self.new = lay(place / "old", OLD | EXAMPLES), lay(place / "new", NEW | EXAMPLES)
        self.git("init", "--quiet", "--template=", str(self.root), at=place)

    def git(self, *arguments: str, at: Path | None = None) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(
            ["git", "-C", at or self.root, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "state")

    def first(self, *arguments: str) -> Said:
        return said(lambda words: main(words, self.old, "0.1.0"), *arguments, cwd=self.root)

    def upgrade(self, *arguments: str, cwd: Path | None = None) -> Said:
        return said(lambda words: main(words, self.new, "0.2.0"), *arguments, cwd=cwd or self.root)

    @property
    def files(self) -> dict[str, str]:
        return {name: text for name, text in tree(self.root).items() if name != NAME}


@pytest.fixture
def empty(tmp_path: Path) -> Vendored:
    return Vendored(tmp_path)


@pytest.fixture
def vendored(empty: Vendored) -> Vendored:
    done = empty.first()
    assert (done.code, done.errors) == (0, "")
    return empty


@pytest.mark.claim("vendored-first")
def test_the_first_time_lays_the_folders_down_and_says_what_comes_next(empty: Vendored) -> None:
    done = empty.first()

    assert (done.code, done.errors) == (0, "")
    assert done.out.startswith("0.1.0: 6 new\n  new      base/: 3 files\n")
    assert "trainyard upgrade --examples" in done.out
    assert empty.files == {name: OLD[name] for name in VENDORED}
    assert sorted(json.loads((empty.root / NAME).read_text())["files"]) == VENDORED
    assert empty.git("status", "--porcelain", "--untracked-files=all").count("??") == len(VENDORED) + 1


@pytest.mark.claim("vendored-again")
def test_a_second_run_changes_nothing(vendored: Vendored) -> None:
    before = tree(vendored.root), os.stat(vendored.root / NAME).st_mtime_ns

    done = vendored.first()

    assert (done.code, done.out) == (0, "0.1.0: up to date\n")
    assert (tree(vendored.root), os.stat(vendored.root / NAME).st_mtime_ns) == before


@pytest.mark.claim("vendored-follows")
def test_what_was_not_changed_here_follows_and_what_is_ones_own_stays(vendored: Vendored) -> None:
    lay(vendored.root, {"base/run/our.yaml": "ours\n", "base/our/our.yaml": "ours\n"})

    done = vendored.upgrade()

    assert (done.code, done.errors) == (0, "")
    assert done.out.splitlines()[:5] == [
        "0.2.0 (was 0.1.0): 1 new, 2 changed, 1 removed",
        "  removed  base/gone/only.yaml",
        "  new      base/more/more.yaml",
        "  changed  base/run/job.yaml",
        "  changed  overlays/efa/fabric.yaml",
    ]
    wanted = {name: text for name, text in NEW.items() if name != "schemas/b/not-named.json"}
    assert vendored.files == {**wanted, "base/run/our.yaml": "ours\n", "base/our/our.yaml": "ours\n"}
    assert not (vendored.root / "base/gone").exists()
    assert vendored.upgrade().out == "0.2.0: up to date\n"


@pytest.mark.claim("vendored-kept")
def test_what_was_changed_here_alone_is_kept(vendored: Vendored) -> None:
    lay(vendored.root, {"base/run/same.yaml": "our own\n"})
    (vendored.root / "schemas/a/job.json").unlink()

    done = vendored.upgrade()

    assert done.code == 0
    assert "  kept     base/run/same.yaml: changed here\n" in done.out
    assert "  kept     schemas/a/job.json: deleted here\n" in done.out
    assert vendored.files["base/run/same.yaml"] == "our own\n"
    assert vendored.upgrade("--take", "base").code == 0
    assert vendored.files["base/run/same.yaml"] == "same\n"
    assert "schemas/a/job.json" not in vendored.files


def _rewritten(root: Path) -> None:
    (root / JOB).write_text("our own\n")


def _deleted(root: Path) -> None:
    (root / JOB).unlink()


def _linked(root: Path) -> None:
    (root / JOB).unlink()
    (root / JOB).symlink_to(root.parent / "outside")


def _gone_there(root: Path) -> None:
    (root / "base/gone/only.yaml").write_text("our own\n")


def _in_the_place_of_a_new_one(root: Path) -> None:
    lay(root, {"base/more/more.yaml": "our own\n"})


@pytest.mark.claim("vendored-refused")
@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        (_rewritten, JOB, "was changed here, and changed in 0.2.0"),
        (_deleted, JOB, "was deleted here, and changed in 0.2.0"),
        (_linked, JOB, "was changed here, and changed in 0.2.0"),
        (_gone_there, "base/gone/only.yaml", "was changed here, and is gone in 0.2.0"),
        (_in_the_place_of_a_new_one, "base/more/more.yaml", "is there already, and is not that of 0.2.0"),
    ],
    ids=["rewritten", "deleted", "linked", "gone-there", "new-there"],
)
def test_what_both_changed_is_refused_until_it_is_settled(
    change: Callable[[Path], None], name: str, why: str, vendored: Vendored
) -> None:
    outside = vendored.root.parent / "outside"
    outside.write_text("of another\n")
    change(vendored.root)
    before = tree(vendored.root)

    for arguments in ((), ("--diff",)):
        done = vendored.upgrade(*arguments)
        assert done.code == 1
        assert done.errors == (
            f"trainyard upgrade: nothing is written; somebody has to settle\n  {name} {why}\n"
            "  help: --take PATH has a file or folder as it is shipped, --keep PATH as it is here\n"
        )
        assert tree(vendored.root) == before
    assert vendored.upgrade("--keep", name).code == 0
    assert vendored.files.get(name) == before.get(name)
    assert vendored.files["overlays/efa/fabric.yaml"] == "new\n"
    assert vendored.upgrade().code == 0
    vendored.upgrade("--take", "base")
    assert vendored.files.get(name) in (NEW.get(name), before.get(name) if name not in NEW else None)
    assert outside.read_text() == "of another\n"


@pytest.mark.claim("vendored-refused")
@pytest.mark.parametrize("name", [JOB, "base/gone/only.yaml"])
def test_what_both_changed_is_taken_as_shipped_where_one_says_so(name: str, vendored: Vendored) -> None:
    lay(vendored.root, {name: "our own\n"})

    assert vendored.upgrade("--take", "run", "--take", "gone", cwd=vendored.root / "base").code == 0

    assert vendored.files.get(name) == NEW.get(name)


@pytest.mark.claim("vendored-links")
@pytest.mark.parametrize("folder", ["base", "base/run"])
def test_a_symlink_in_the_place_of_a_folder_is_not_followed(folder: str, vendored: Vendored) -> None:
    outside = vendored.root.parent / "outside"
    shutil.move(vendored.root / folder, outside)
    (vendored.root / folder).symlink_to(outside)
    before = tree(outside)

    done = vendored.upgrade("--take", "base")

    assert done.code == 1
    assert f"  {folder} is a symlink, where a folder belongs\n" in done.errors
    assert tree(outside) == before
    assert vendored.files["overlays/efa/fabric.yaml"] == "old\n"
    assert vendored.upgrade("--keep", "base").code == 0
    assert tree(outside) == before


def test_a_folder_in_the_place_of_a_file_is_told(empty: Vendored) -> None:
    lay(empty.root, {f"{JOB}/a": "", "overlays": "a file\n"})

    done = empty.first("--take", ".")

    assert done.code == 1
    assert f"  {JOB} is a folder, where a file belongs\n" in done.errors
    assert "  overlays is a file, where a folder belongs\n" in done.errors
    assert empty.files == {f"{JOB}/a": "", "overlays": "a file\n"}


@pytest.mark.claim("vendored-goes-on")
@pytest.mark.parametrize("moves", range(6))
@pytest.mark.parametrize("end", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=["stopped", "full"])
def test_a_run_that_was_ended_goes_on(
    end: BaseException, moves: int, vendored: Vendored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended before each of its moves in turn: three files, a removal, the record."""
    left = iter(range(moves))
    replace, unlink = os.replace, Path.unlink

    def counted(act: Callable[..., None]) -> Callable[..., None]:
        def does(*arguments: Path) -> None:
            if next(left, None) is None:
                raise end
            act(*arguments)

        return does

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", counted(replace))
        patch.setattr(Path, "unlink", counted(unlink))
        done = vendored.upgrade()

    assert done.code == (0 if moves == 5 else 2 if isinstance(end, OSError) else 130)
    assert "run it again" in done.errors or moves == 5
    assert not list(vendored.root.glob(f"{write.PREFIX}*"))
    assert vendored.upgrade().code == 0
    assert vendored.files == {name: text for name, text in NEW.items() if name != "schemas/b/not-named.json"}
    assert vendored.upgrade().out == "0.2.0: up to date\n"


def test_a_full_disk_changes_nothing(vendored: Vendored, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    before = tree(vendored.root)
    monkeypatch.setattr(shutil, "copyfile", full)

    done = vendored.upgrade()

    assert done.code == 2
    assert (
        done.errors
        == "trainyard upgrade: cannot write base/more/more.yaml: no space left on device; run it again once it can be\n"
    )
    assert tree(vendored.root) == before


def test_what_a_killed_run_left_is_swept(vendored: Vendored) -> None:
    folder = vendored.root / f"{write.PREFIX}killed"
    lay(folder, {"0": "half"})
    os.utime(folder, (time.time() - 3600,) * 2)

    vendored.upgrade()

    assert not folder.exists()


@pytest.mark.claim("vendored-writes-nothing")
def test_diff_writes_nothing(vendored: Vendored) -> None:
    vendored.commit()
    before = tree(vendored.root)

    for flag in ("--diff", "--dry-run"):
        done = vendored.upgrade(flag)
        assert (done.code, done.errors) == (0, "")
        assert "  changed  base/run/job.yaml\n" in done.out
        assert tree(vendored.root) == before
        assert vendored.git("status", "--porcelain") == ""


@pytest.mark.claim("vendored-downgrade")
def test_an_older_version_is_told(vendored: Vendored) -> None:
    vendored.upgrade()
    before = tree(vendored.root)

    done = vendored.first()

    assert done.code == 2
    assert done.errors == (
        "trainyard upgrade: trainyard.lock has 0.2.0, and this is trainyard 0.1.0, which is older:"
        " install 0.2.0, or go back by --downgrade\n"
    )
    assert tree(vendored.root) == before
    assert vendored.first("--diff").out.startswith("0.1.0 (was 0.2.0, which is newer): 1 new, 2 changed, 1 removed\n")
    assert vendored.first("--downgrade").code == 0
    assert vendored.files == {name: OLD[name] for name in VENDORED}


@pytest.mark.parametrize(
    ("one", "other"), [("0.1.0", "0.1"), ("0.9.0", "0.10.0"), ("0.1.0", "0.1.1"), ("0.2.0rc1", "0.2.0")]
)
def test_how_versions_compare(one: str, other: str) -> None:
    assert release(one) <= release(other)


@pytest.mark.claim("vendored-examples")
def test_examples_are_brought_once_and_belong_to_the_repository(vendored: Vendored) -> None:
    assert vendored.first("--examples").out.startswith(
        "0.1.0: 2 new\n  new      clusters/: 1 file\n  new      jobs/: 1 file\n"
    )
    assert {name: vendored.files[name] for name in EXAMPLES} == EXAMPLES
    shutil.rmtree(vendored.root / "jobs")
    lay(vendored.root, {"clusters/one/facts.yaml": "ours\n"})

    assert vendored.upgrade().code == 0
    assert vendored.files["clusters/one/facts.yaml"] == "ours\n"
    assert not (vendored.root / "jobs").exists()
    done = vendored.upgrade("--examples")
    assert done.code == 1
    assert "  clusters/one/facts.yaml is there already, and is not that of 0.2.0\n" in done.errors
    (vendored.new / "clusters/one/facts.yaml").unlink()
    (vendored.new / "jobs/team/job/job.yaml").unlink()
    assert "--examples: this package carries none" in vendored.upgrade("--examples").errors


@pytest.mark.claim("vendored-ignored")
def test_what_git_ignores_is_told(empty: Vendored) -> None:
    lay(empty.root, {".gitignore": "*.lock\nfabric.yaml\nour.yaml\n", "base/our.yaml": "ours\n"})

    done = empty.first()

    assert done.code == 0
    assert done.errors == "".join(
        f"trainyard upgrade: Git ignores {name}: git add --force {name}\n"
        for name in ("overlays/efa/fabric.yaml", "trainyard.lock")
    )
    empty.git("add", "--force", "overlays/efa/fabric.yaml", "trainyard.lock")
    assert empty.first().errors == ""


@pytest.mark.claim("vendored-not-a-fork")
def test_a_fork_is_told_to_merge(empty: Vendored) -> None:
    (empty.root / "tools/trainyard").mkdir(parents=True)

    done = empty.first()

    assert done.code == 2
    assert done.errors.endswith("is a fork of Trainyard: merge upstream, as its docs/upgrade.md says\n")
    assert empty.files == {}


def test_outside_of_git_nothing_is_written(tmp_path: Path) -> None:
    place = Vendored(tmp_path)
    (tmp_path / "elsewhere/jobs").mkdir(parents=True)

    done = place.upgrade(cwd=tmp_path / "elsewhere")

    assert done.code == 2
    assert "there is no Git repository here" in done.errors
    assert tree(tmp_path / "elsewhere") == {}


def test_a_folder_of_the_repository_is_the_repository(vendored: Vendored) -> None:
    assert vendored.upgrade(cwd=vendored.root / "base/run").code == 0
    assert vendored.files["base/more/more.yaml"] == "more\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--take", "base/rum"), "--take base/rum: no vendored file is called so"),
        (("--keep", "../repository-of-another"), "no vendored file is called so"),
        (("--keep", ""), "--keep: a PATH is empty: an unset variable, perhaps"),
        (("--take", "base", "--keep", "base/run"), "--take and --keep both name base/run/"),
        (("base",), "unrecognized arguments: base (see trainyard upgrade --help)"),
    ],
)
def test_what_is_not_asked_well_is_refused(arguments: tuple[str, ...], words: str, vendored: Vendored) -> None:
    done = vendored.upgrade(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.errors
    assert vendored.files[JOB] == OLD[JOB]


DIGEST = "0" * 64
BAD = {
    "not-json": "<<<<<<< ours\n",
    "list": "[]",
    "deep": "[" * 100_000,
    "other-keys": '{"trainyard": "0.1.0", "files": {}, "more": 1}',
    "no-version": '{"trainyard": 1, "files": {}}',
    "files": '{"trainyard": "0.1.0", "files": []}',
    "twice": '{"trainyard": "0.1.0", "files": {}, "files": {}}',
    "no-digest": '{"trainyard": "0.1.0", "files": {"base/a": "0"}}',
    **{
        f"name-{number}": json.dumps({"trainyard": "0.1.0", "files": {name: DIGEST}})
        for number, name in enumerate(
            ("jobs/a/b/job.yaml", "/etc/passwd", "base/../jobs/a", "base", "base//a", "base/./a", "base/\x1b[2J", "")
        )
    },
}


@pytest.mark.claim("vendored-record")
@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_record_that_is_none_is_told_in_a_line(text: str, vendored: Vendored) -> None:
    (vendored.root / NAME).write_text(text)
    before = tree(vendored.root)

    done = vendored.upgrade()

    assert (done.code, done.out) == (2, "")
    assert done.errors.startswith("trainyard upgrade: trainyard.lock: is not what trainyard upgrade wrote: ")
    assert "\x1b" not in done.errors
    assert tree(vendored.root) == before


def test_a_record_that_is_a_symlink_is_not_followed(vendored: Vendored) -> None:
    record = vendored.root / NAME
    record.rename(vendored.root.parent / "record")
    record.symlink_to(vendored.root.parent / "record")

    done = vendored.upgrade()

    assert (done.code, done.errors) == (2, "trainyard upgrade: trainyard.lock: is not a regular file\n")


def test_without_a_record_the_same_files_are_taken_over(vendored: Vendored) -> None:
    """As after a merge in which it was lost."""
    (vendored.root / NAME).unlink()

    done = vendored.first()

    assert (done.code, done.out) == (0, "0.1.0: up to date\n")
    record = read(vendored.root)
    assert record is not None
    assert sorted(record.files) == VENDORED
