"""Kinds of jobs that this repository has no base of, from plain manifests."""

import pytest

from tests.by_day import marks, sample
from tests.rehearse.rehearsing import Rehearsed, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
KINDS = "tests/rehearse/kinds"
VOLCANO = (f"{KINDS}/volcano-job.yaml", "--once")
RAY = (f"{KINDS}/ray-job.yaml", "--once", "--patience", "60")
BY_DAY = sample((VOLCANO, RAY), 1)


@pytest.mark.parametrize(
    "rehearsed", [pytest.param(VOLCANO, id="volcano", marks=marks(VOLCANO, BY_DAY))], indirect=True
)
def test_the_ranks_of_a_volcano_job_meet(rehearsed: Rehearsed) -> None:
    (run,) = rehearsed.runs
    assert rehearsed.code == 0, said(rehearsed)
    assert run["ranks_joined"] == 3
    assert run["losses"]["1"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("rehearsed", [pytest.param(RAY, id="ray", marks=marks(RAY, BY_DAY))], indirect=True)
def test_the_entrypoint_of_a_plain_ray_job_runs_on_its_cluster(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert "dino-submitter-0 | [0, 1, 2]" in rehearsed.log
