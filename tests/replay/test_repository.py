"""This repository's own jobs: every rendered value has a place, and every wire reaches its field."""

from pathlib import Path

import pytest

from tests.replay.support import compare

ROOT = Path(__file__).parents[2]
JOBS = sorted(str(file.parent.relative_to(ROOT)) for file in ROOT.glob("jobs/*/*/kustomization.yaml"))


@pytest.mark.parametrize("job", JOBS)
def test_every_value_has_a_place(job: str) -> None:
    both = compare(ROOT, job)
    assert both.differences() == []
    assert both.known() == 1.0
    assert {wire.problem for wire in both.replay.wires} <= {"", "no target"}
    assert {fact.plain()["kind"] for fact in both.replay.facts} == {"TrainingJob", "PodTemplate", "Fabric", "Cluster"}


@pytest.mark.parametrize("job", JOBS)
def test_numbers_of_a_job_point_at_its_job_file(job: str) -> None:
    both = compare(ROOT, job)
    found = next(item for item in both.objects if item.kind == "Job")
    position = both.replay.position(found, ("spec", "completions"))
    assert position is not None
    assert position.file == f"{job}/job.yaml"
