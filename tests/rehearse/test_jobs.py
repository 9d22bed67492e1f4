"""Every job of the repository meets, trains, saves and resumes, in a network as strict as the cluster's."""

import pytest

from tests.rehearse.rehearsing import jobs, rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
MEASURES = "all-reduce-gpu-east"
"""The job that trains nothing, and so saves nothing."""


@pytest.mark.parametrize("job", jobs())
def test_every_job_trains_and_resumes(job: str) -> None:
    rehearsed = rehearse(job, "--gpus-per-node", "1")

    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.document["rehearsal"]["network"] == "strict"
    first, *again = rehearsed.runs
    if job.endswith(MEASURES):
        assert first["ranks_joined"] == 2
        assert not again
        return
    assert first["world_size"] == 2
    assert sorted(map(int, first["losses"])) == [1, 2, 3, 4, 5, 6]
    assert again[0]["resumed_from"][0] == rehearsed.document["rehearsal"]["goes_on_from"]
    same = set(first["losses"]) & set(again[0]["losses"])
    assert "6" in same
    assert again[0]["losses"] == pytest.approx({step: first["losses"][step] for step in again[0]["losses"]}, rel=1e-3)


def test_several_ranks_in_a_pod() -> None:
    rehearsed = rehearse("jobs/research/gpt2-355m", "--once")

    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.runs[0]["world_size"] == 4


def test_without_namespaces_it_runs_on_loopback_and_says_so() -> None:
    rehearsed = rehearse("jobs/research/gpt2-124m", "--gpus-per-node", "1", "--once", "--loopback")

    assert rehearsed.code == 0, said(rehearsed)
    assert rehearsed.document["rehearsal"]["network"] == "loopback"
    assert rehearsed.document["rehearsal"]["not_checked"]
