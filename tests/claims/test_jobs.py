"""Claims about job folders."""

from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]


@pytest.mark.claim("job-is-two-files")
@pytest.mark.parametrize(
    "folder", sorted(each.parent for each in HOME.glob("jobs/*/*/job.yaml")), ids=lambda each: each.name
)
def test_a_job_has_its_two_files(folder: Path) -> None:
    assert {"job.yaml", "kustomization.yaml"} <= {file.name for file in folder.iterdir()}
