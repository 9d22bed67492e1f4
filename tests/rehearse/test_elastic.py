"""base/elastic keeps its promise: a run goes on with fewer nodes, and takes them back."""

import pytest

from tests.rehearse.rehearsing import Rehearsed, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
ELASTIC = "tests/rehearse/jobs/research/gpt2-elastic"
STATIC = "jobs/research/gpt2-355m"


def loses_a_node(job: str) -> pytest.MarkDecorator:
    """Two nodes of one rank, one of which goes and comes back."""
    return pytest.mark.parametrize(
        "rehearsed", [(job, "--gpus-per-node", "1", "--chaos", "lose-node@4")], indirect=True, ids=[job]
    )


@pytest.mark.long
@pytest.mark.claim("elastic-goes-on", "lose-node")
@loses_a_node(ELASTIC)
def test_an_elastic_job_shrinks_and_grows(rehearsed: Rehearsed) -> None:
    (run,) = rehearsed.runs
    assert rehearsed.code == 0, said(rehearsed)
    assert run["world_sizes"] == [2, 1, 2], said(rehearsed)
    assert len(run["resumed_from"]) >= 2
    assert max(map(int, run["losses"])) == 164


@pytest.mark.long
@pytest.mark.claim("lose-node")
@loses_a_node(STATIC)
def test_another_waits_for_its_node(rehearsed: Rehearsed) -> None:
    (run,) = rehearsed.runs
    assert rehearsed.code == 0, said(rehearsed)
    assert run["world_sizes"] == [2]
    assert run["pods_replaced"] == 1
    assert run["resumed_from"]
