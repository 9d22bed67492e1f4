"""Changes of a pull request as data: attacks.yaml, laid over a copy of this repository with one cluster and one job."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.gitops.folders import HOME
from trainyard.repository.list_command import main as list_jobs

CLUSTER = "gpu-east"
JOB = "jobs/research/llama-8b-sft"


@dataclass(frozen=True, slots=True)
class Row:
    """One change, and who refuses it."""

    name: str
    change: Mapping[str, Mapping[str, Any]]
    told: tuple[str, ...] = ()
    """RULE file:line, sorted; none for a near miss."""
    refused: str = ""
    """Words of the API server."""
    shown: tuple[str, ...] = ()
    """Parts of what diff-jobs says."""


def rows(file: Path) -> list[Row]:
    """The rows of a table of changes."""
    lists = ("told", "shown")
    found = yaml.load(file.read_text(), yaml.CSafeLoader)
    return [Row(**each | {name: tuple(sorted(each.get(name, ()))) for name in lists}) for each in found]


def repository(root: Path) -> Path:
    """One cluster and one job of this repository, with the list that Flux reads, committed."""
    for part in ("base", "overlays", f"clusters/{CLUSTER}", JOB):
        shutil.copytree(HOME / part, root / part)
    assert list_jobs(["--root", str(root)]) == 0
    git(root, "init", "--quiet", "--initial-branch=main", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    return root


def git(root: Path, *arguments: str) -> str:
    """Run git there."""
    who = ["-c", "user.name=researcher", "-c", "user.email=researcher@example.com"]
    return subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True).stdout


@contextmanager
def changed(root: Path, row: Row) -> Iterator[None]:
    """The repository with a row's change, which is undone afterwards."""
    for name, change in row.change.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_edited(name, file.read_text() if file.is_file() else "", change))
    git(root, "add", "--all")
    try:
        yield
    finally:
        git(root, "reset", "--quiet", "--hard")
        git(root, "clean", "--quiet", "-fdx")


def _edited(name: str, text: str, change: Mapping[str, Any]) -> str:
    if "replace" in change:
        old, new = change["replace"]
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        return text.replace(old, new)
    return text + str(change["append"])
