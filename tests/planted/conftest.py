"""The repository that mistakes are planted in."""

import subprocess
from pathlib import Path

import pytest

from tests.copies import TWO_JOBS, copy_judged, copy_parts
from tests.planted.checkout import Checkout


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("untouched")
    copy_parts(place / "repository", *TWO_JOBS)
    subprocess.run(["git", "init", "-q", "--template=", place / "repository"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        assert Checkout(place / "repository").lint()[1]["findings"] == []
    return place


@pytest.fixture
def checkout(untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Checkout(copy_judged(untouched, tmp_path))
