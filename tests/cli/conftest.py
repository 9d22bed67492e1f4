"""Repositories to lint."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Repository
from tests.copies import TWO_JOBS, copy_parts


@pytest.fixture
def empty(tmp_path: Path) -> Repository:
    """A repository with nothing in it, and without git."""
    repository = Repository(tmp_path / "repository")
    (repository.root / "jobs").mkdir(parents=True)
    return repository


@pytest.fixture
def checkout(tmp_path: Path) -> Repository:
    """A copy of two of this repository's jobs and of their clusters, committed to a branch called main."""
    repository = Repository(tmp_path / "repository")
    copy_parts(repository.root, *TWO_JOBS)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", repository.root], check=True)
    repository.commit()
    return repository
