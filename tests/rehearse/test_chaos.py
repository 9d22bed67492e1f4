"""What a job comes back from, as its page in docs/kinds promises."""

import pytest

from tests.by_day import marks, sample
from tests.rehearse.rehearsing import Rehearsed, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
INDEXED_JOB = "jobs/research/gpt2-124m"
WORKERS = "gpt2-774m-worker-0,gpt2-774m-worker-1"
KILLED = (INDEXED_JOB, "kill-rank@4", "fill-disk@20")
LOST = ("jobs/research/llama-8b-code", "kill-node@4")
PREEMPTED = ("jobs/research/llama-8b-sft", "preempt@4")
SLOW = (INDEXED_JOB, "slow-disk=1Mi@4", "preempt@4")
CUT = ("jobs/research/gpt2-774m", f"cut={WORKERS}@4")
BY_DAY = sample((KILLED, LOST, PREEMPTED, SLOW, CUT), 1)
"""The commit draws one; at night all happen."""


def chaos(job_and_events: tuple[str, ...]) -> pytest.MarkDecorator:
    """A rehearsal of two ranks to which something happens."""
    job, *events = job_and_events
    words = [word for event in events for word in ("--chaos", event)]
    rehearsal = (job, "--gpus-per-node", "1", *words)
    drawn = pytest.param(rehearsal, id="-".join(events), marks=marks(job_and_events, BY_DAY))
    return pytest.mark.parametrize("rehearsed", [drawn], indirect=True)


def survived(rehearsed: Rehearsed, last: int = 44) -> None:
    """All of it happened, pods were made anew, and the run went on from a checkpoint to its last step."""
    (run,) = rehearsed.runs
    assert rehearsed.code == 0, said(rehearsed)
    assert run["chaos"]
    assert run["pods_replaced"] > 0
    assert run["resumed_from"][0] >= 2
    assert max(map(int, run["losses"])) == last
    assert "resume" in rehearsed.document["rehearsal"]["seen"]


@pytest.mark.claim("goes-on-from-newest")
@chaos(KILLED)
def test_an_indexed_job_survives_a_killed_rank_and_a_full_disk_where_its_last_checkpoint_stays(
    rehearsed: Rehearsed,
) -> None:
    survived(rehearsed, last=60)
    assert "was not saved: " in rehearsed.log


@pytest.mark.claim("goes-on-from-newest")
@chaos(LOST)
def test_a_jobset_survives_a_lost_node(rehearsed: Rehearsed) -> None:
    survived(rehearsed)


@chaos(PREEMPTED)
def test_a_preempted_job_saves_and_goes_on(rehearsed: Rehearsed) -> None:
    survived(rehearsed)
    assert "told to stop: saving step" in rehearsed.log


@chaos(SLOW)
def test_a_grace_that_is_longer_than_the_save_on_a_slow_disk(rehearsed: Rehearsed) -> None:
    survived(rehearsed)
    saves = [each for each in rehearsed.runs[0]["slow_saves"] if "/.step-" in each["folder"]]
    assert all(each["seconds"] >= each["bytes"] / (1 << 20) * 0.99 for each in saves), saves
    assert max(each["bytes"] for each in saves) > 1 << 20
    assert "told to stop: saving step" in rehearsed.log
    assert "slow disk: " in rehearsed.log


@pytest.mark.claim("mpi-starts-anew")
@chaos(CUT)
def test_an_mpi_job_survives_a_cut_between_its_workers(rehearsed: Rehearsed) -> None:
    survived(rehearsed)
