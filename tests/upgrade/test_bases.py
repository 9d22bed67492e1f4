"""The bases of this repository, vendored in another one: schemas for editors, and what an upgrade changes for jobs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.copies import HOME, copy_parts
from tests.said import Said, said
from trainyard.upgrade.command import main

pytestmark = pytest.mark.commands

HEADER = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)
JOB = "jobs/research/gpt2-124m"


def upgrade(root: Path, home: Path, version: str, *arguments: str) -> Said:
    return said(lambda words: main(words, home, version), *arguments, cwd=root)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One job on its cluster, with the bases of 0.1.0, committed."""
    root = tmp_path / "repository"
    copy_parts(root, JOB, "clusters/lab-west")
    subprocess.run(["git", "init", "--quiet", "--template=", root], check=True)
    assert upgrade(root, HOME, "0.1.0").code == 0
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("add", "--all"), ("commit", "--quiet", "--message", "state")):
        subprocess.run(["git", "-C", root, *who, *arguments], check=True)
    return root


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A version in which NCCL says more."""
    home = tmp_path / "newer"
    for part in ("base", "overlays", "schemas"):
        shutil.copytree(HOME / part, home / part)
    file = home / "base/run/training-job.yaml"
    written = file.read_text()
    assert "NCCL_DEBUG: WARN" in written
    file.write_text(written.replace("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO"))
    return home


@pytest.mark.claim("vendored-schemas")
def test_each_schema_that_a_file_names_is_there(repository: Path) -> None:
    named = [
        (file.parent / schema).resolve()
        for part in ("base", "overlays", "clusters", "jobs")
        for file in (repository / part).rglob("*.yaml")
        for schema in HEADER.findall(file.read_text())
    ]
    assert len(named) > 100
    assert [file for file in named if not file.is_file()] == []
    assert all(file.is_relative_to(repository / "schemas") for file in named)


@pytest.mark.claim("vendored-says-jobs")
def test_an_upgrade_says_what_changes_for_jobs(repository: Path, newer: Path) -> None:
    """Before, in a copy; and afterwards, beside what is committed."""
    planned = upgrade(repository, newer, "0.2.0", "--diff")
    done = upgrade(repository, newer, "0.2.0")

    for each, side in ((planned, "the files as they are"), (done, "HEAD")):
        assert (each.code, each.errors) == (0, "")
        assert each.out.startswith("0.2.0 (was 0.1.0): 1 changed\n  changed  base/run/training-job.yaml\n")
        assert f"\nsince {side} (" in each.out
        assert re.search(rf"^shared {JOB}: .*\n(  .*\n)*  NCCL_DEBUG +WARN -> INFO\n", each.out, re.MULTILINE)
    told = [each.out[each.out.index("shared ") :].partition("\nnext:")[0].strip() for each in (planned, done)]
    assert told[0] == told[1]


def test_the_copy_that_is_compared_is_nobodys_repository(
    repository: Path, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a hook, Git's variables name the repository whose hook it is."""
    git = ("git", "-C", repository)
    before = subprocess.run([*git, "log", "--format=%H"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository))

    done = upgrade(repository, newer, "0.2.0", "--diff")

    assert "NCCL_DEBUG" in done.out
    assert subprocess.run([*git, "log", "--format=%H"], check=True, capture_output=True, text=True).stdout == before
    assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True).stdout == ""
