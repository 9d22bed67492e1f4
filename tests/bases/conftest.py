"""A checkout to make jobs in."""

import shutil
from pathlib import Path

import pytest

from tests.bases.renders import copy


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every checkout is a copy of."""
    return copy(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def root(pristine: Path, tmp_path: Path) -> Path:
    """All that jobs are made of, and one job of the repository."""
    shutil.copytree(pristine, tmp_path, dirs_exist_ok=True)
    return tmp_path
