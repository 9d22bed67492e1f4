"""The repository that mistakes are planted in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.planted.checkout import Checkout

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("untouched")
    jobs = ("jobs/research/gpt2-124m", "jobs/research/llama-8b-sft")
    clusters = ("clusters/gpu-east", "clusters/lab-west")
    for folder in ("base", "overlays", *clusters, *jobs):
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("flux"))
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)
    return root


@pytest.fixture
def checkout(untouched: Path, tmp_path: Path) -> Checkout:
    shutil.copytree(untouched, tmp_path, dirs_exist_ok=True)
    return Checkout(tmp_path)
