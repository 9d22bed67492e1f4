"""The dataset that rehearsals make up."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainyard.rehearse import storage

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]


def test_rehearsals_that_begin_together_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "DATASETS", tmp_path / "datasets")

    with ThreadPoolExecutor(3) as pool:
        made = set(pool.map(storage.dataset, ["text"] * 3))

    assert made == {tmp_path / "datasets/text"}
    assert [file.name for file in (tmp_path / "datasets").iterdir()] == ["text"]
    assert all(file.stat().st_size for file in (tmp_path / "datasets/text").iterdir())
