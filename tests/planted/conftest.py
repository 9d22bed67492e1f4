"""The repository that mistakes are planted in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.copies import TWO_JOBS, copy_parts
from tests.planted.checkout import Checkout


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("untouched")
    copy_parts(root, *TWO_JOBS)
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)
    return root


@pytest.fixture
def checkout(untouched: Path, tmp_path: Path) -> Checkout:
    shutil.copytree(untouched, tmp_path, dirs_exist_ok=True)
    return Checkout(tmp_path)
