"""Every job of the repository meets, trains, saves and resumes, in a network as strict as the cluster's."""

import pytest

from tests.rehearse.rehearsing import Rehearsed, jobs, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
TRAIN_NOTHING = ("jobs/research/all-reduce-gpu-east",)
TWO_RANKS = ("--gpus-per-node", "1")
TRAIN = [job for job in jobs() if job not in TRAIN_NOTHING]


@pytest.mark.claim("passes-here-trains", "mpi-environment")
@pytest.mark.parametrize("rehearsed", [(job, *TWO_RANKS) for job in TRAIN], indirect=True, ids=TRAIN)
def test_every_job_trains_and_resumes(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.document["rehearsal"]["network"] == "strict"
    first, again = rehearsed.runs
    assert first["world_size"] == 2
    assert sorted(map(int, first["losses"])) == [1, 2, 3, 4, 5, 6]
    assert again["resumed_from"][0] == rehearsed.document["rehearsal"]["goes_on_from"]
    assert "6" in again["losses"]
    assert again["losses"] == pytest.approx({step: first["losses"][step] for step in again["losses"]}, rel=1e-3)


@pytest.mark.parametrize("rehearsed", [(job, *TWO_RANKS) for job in TRAIN_NOTHING], indirect=True, ids=TRAIN_NOTHING)
def test_a_job_that_measures_ends(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert [run["ranks_joined"] for run in rehearsed.runs] == [2]


@pytest.mark.parametrize("rehearsed", [("jobs/research/gpt2-355m", "--once")], indirect=True)
def test_several_ranks_in_a_pod(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.runs[0]["world_size"] == 4


@pytest.mark.parametrize("rehearsed", [("jobs/research/gpt2-124m", *TWO_RANKS, "--once", "--loopback")], indirect=True)
def test_without_namespaces_it_runs_on_loopback_and_says_so(rehearsed: Rehearsed) -> None:
    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.document["rehearsal"]["network"] == "loopback"
    assert rehearsed.document["rehearsal"]["not_checked"]
