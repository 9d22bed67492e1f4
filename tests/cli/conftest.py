"""Repositories to lint."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Repository
from tests.copies import TWO_JOBS, copy_judged, copy_parts


@pytest.fixture
def empty(tmp_path: Path) -> Repository:
    """A repository with nothing in it, and without git."""
    repository = Repository(tmp_path / "repository")
    (repository.root / "jobs").mkdir(parents=True)
    return repository


@pytest.fixture(scope="session")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two of this repository's jobs and their clusters, committed to a branch called main, and judged once."""
    repository = Repository(tmp_path_factory.mktemp("two-jobs") / "repository")
    copy_parts(repository.root, *TWO_JOBS)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", repository.root], check=True)
    repository.commit()
    assert repository.lint().returncode == 0
    return repository


@pytest.fixture
def checkout(two_jobs: Repository, tmp_path: Path) -> Repository:
    """A copy of two jobs, with the results that are kept of them: what a test changes is judged again."""
    return Repository(copy_judged(two_jobs.root.parent, tmp_path))


@pytest.fixture
def unjudged(two_jobs: Repository, tmp_path: Path) -> Repository:
    """A copy of two jobs of which nothing is kept."""
    shutil.copytree(two_jobs.root, tmp_path / "repository", symlinks=True)
    return Repository(tmp_path / "repository")
