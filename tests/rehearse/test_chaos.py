"""What a job comes back from, as its page in docs/kinds promises."""

import pytest

from tests.rehearse.rehearsing import Rehearsed, rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
TWO_RANKS = ("--gpus-per-node", "1")


def survived(rehearsed: Rehearsed, event: str) -> None:
    """The event happened, pods were made anew, and the run went on from a checkpoint to its last step."""
    run = rehearsed.runs[0]
    assert rehearsed.code == 0, said(rehearsed)
    assert run["chaos"] == [event]
    assert run["pods_replaced"] > 0
    assert run["resumed_from"][0] >= 2
    assert max(map(int, run["losses"])) == 44


def test_an_indexed_job_survives_a_killed_rank() -> None:
    survived(rehearse("jobs/research/gpt2-124m", *TWO_RANKS, "--chaos", "kill-rank@4"), "kill-rank@4")


def test_a_jobset_survives_a_lost_node() -> None:
    survived(rehearse("jobs/research/llama-8b-code", *TWO_RANKS, "--chaos", "kill-node@4"), "kill-node@4")


def test_a_preempted_job_saves_and_goes_on() -> None:
    rehearsed = rehearse("jobs/research/llama-8b-sft", *TWO_RANKS, "--chaos", "preempt@4")

    survived(rehearsed, "preempt@4")
    assert "told to stop: saving step" in rehearsed.log


def test_a_full_disk_ends_the_run_and_its_last_checkpoint_stays() -> None:
    rehearsed = rehearse("jobs/research/gpt2-124m", *TWO_RANKS, "--chaos", "fill-disk@4")

    survived(rehearsed, "fill-disk@4")
    assert "was not saved: " in rehearsed.log


def test_an_mpi_job_survives_a_cut_between_its_workers() -> None:
    workers = "gpt2-774m-worker-0,gpt2-774m-worker-1"
    rehearsed = rehearse("jobs/research/gpt2-774m", *TWO_RANKS, "--chaos", f"cut={workers}@4")

    survived(rehearsed, f"cut={workers}@4")
