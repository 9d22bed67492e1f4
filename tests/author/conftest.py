"""A repository to write jobs into."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.author.support import HOME

collect_ignore = [] if find_spec("kubeflow") else ["test_notebook.py"]
"""The trainer's Python, which collects the tests that train, has no SDK; the one that runs these tests has."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """This repository's bases, fabrics, clusters and one job, under git."""
    return _repository(tmp_path / "repository")


@pytest.fixture(scope="module")
def shared_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that write nothing into it."""
    return _repository(tmp_path_factory.mktemp("shared") / "repository")


def _repository(root: Path) -> Path:
    for part in ("base", "overlays", "clusters", "jobs/research/gpt2-124m"):
        shutil.copytree(HOME / part, root / part)
    subprocess.run(["git", "init", "-q", "-b", "main", "--template=", root], check=True)
    return root
