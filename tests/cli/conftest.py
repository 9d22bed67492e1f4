"""Repositories to lint."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import HOME, Repository


@pytest.fixture
def empty(tmp_path: Path) -> Repository:
    """A repository with nothing in it, and without git."""
    repository = Repository(tmp_path / "repository")
    (repository.root / "jobs").mkdir(parents=True)
    return repository


JOBS = ("jobs/research/gpt2-124m", "jobs/research/llama-8b-sft")


@pytest.fixture
def checkout(tmp_path: Path) -> Repository:
    """A copy of two of this repository's jobs and of their clusters, committed to a branch called main.

    No Flux is told of them, so that a test may add and rename jobs without a list.
    """
    repository = Repository(tmp_path / "repository")
    for part in ("base", "overlays", *("clusters/gpu-east", "clusters/lab-west"), *JOBS):
        shutil.copytree(HOME / part, repository.root / part, ignore=shutil.ignore_patterns("flux"))
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", repository.root], check=True)
    repository.commit()
    return repository
