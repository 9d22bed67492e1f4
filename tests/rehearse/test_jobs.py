"""Every job of the repository meets, trains, saves and resumes, in a network as strict as the cluster's."""

import pytest

from tests.by_day import marks, sample
from tests.rehearse.rehearsing import Rehearsed, jobs, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
TRAIN_NOTHING = ("jobs/research/all-reduce-gpu-east",)
FOUR_RANKS = "jobs/research/gpt2-355m"
"""Of the others a node has one rank, which is enough to meet, save and resume."""
TRAIN = {job: (job,) if job == FOUR_RANKS else (job, "--gpus-per-node", "1") for job in jobs()}
MEASURE = {job: TRAIN.pop(job) for job in TRAIN_NOTHING}
BY_DAY = sample(sorted(TRAIN), 1)
"""The commit draws one. At night all are rehearsed."""


@pytest.mark.claim("passes-here-trains", "mpi-environment")
@pytest.mark.parametrize(
    "rehearsed",
    [pytest.param(words, id=job, marks=marks(job, BY_DAY)) for job, words in TRAIN.items()],
    indirect=True,
)
def test_every_job_trains_and_resumes(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.document["rehearsal"]["network"] == "strict"
    first, again = rehearsed.runs
    assert first["world_size"] == (4 if rehearsed.document["rehearsal"]["job"] == FOUR_RANKS else 2)
    assert sorted(map(int, first["losses"])) == [1, 2, 3, 4, 5, 6]
    assert again["resumed_from"][0] == rehearsed.document["rehearsal"]["goes_on_from"]
    assert "6" in again["losses"]
    assert again["losses"] == pytest.approx({step: first["losses"][step] for step in again["losses"]}, rel=1e-3)
    assert set(rehearsed.document["rehearsal"]["not_seen"]) <= {"devices"}


@pytest.mark.parametrize("rehearsed", MEASURE.values(), indirect=True, ids=MEASURE)
def test_a_job_that_measures_ends(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert [run["ranks_joined"] for run in rehearsed.runs] == [2]
    assert {"steps", "save", "resume"} <= set(rehearsed.document["rehearsal"]["not_seen"])
