"""Whether the jobs of a cluster fit there together: RES012, which no job shows by itself."""

import shutil
from typing import Any

import pytest

from tests.cli.command import GPT2, HOME, LLAMA, Repository

pytestmark = pytest.mark.commands

FACTS = "clusters/gpu-east/facts/cluster.yaml"
SECOND = "jobs/research/llama-8b-physics"
QUEUE = "components:\n- ../../../base/queue/kueue\ntransformers:\n"


def told(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == "RES012"]


def crowded(checkout: Repository) -> None:
    """Two jobs of four nodes each on a cluster of seven."""
    checkout.copy_job(LLAMA, SECOND)
    checkout.replace(FACTS, "nodes: 32\n", "nodes: 7\n")


def test_what_a_cluster_cannot_hold_at_once_is_told_once(checkout: Repository) -> None:
    crowded(checkout)

    report = checkout.report()

    (finding,) = told(report)
    assert (finding["severity"], finding["file"], finding["line"]) == ("warning", FACTS, 10)
    assert "2 jobs of gpu-east without a queue ask for 8 nodes, and it has 7" in finding["message"]
    assert [place["file"] for place in finding["related"]] == [f"{LLAMA}/job.yaml", f"{SECOND}/job.yaml"][::-1]
    assert finding["jobs"] == sorted([LLAMA, SECOND])
    assert [len(told(checkout.report("--shard", part))) for part in ("1/3", "2/3", "3/3")] == [0, 1, 0]


def test_jobs_that_fit_exactly(checkout: Repository) -> None:
    crowded(checkout)
    checkout.replace(FACTS, "nodes: 7\n", "nodes: 8\n")

    assert told(checkout.report()) == []


def test_a_queue_holds_a_job_back(checkout: Repository) -> None:
    crowded(checkout)
    checkout.replace(f"{SECOND}/kustomization.yaml", "transformers:\n", QUEUE)

    assert told(checkout.report()) == []


def test_a_change_is_told_of_the_cluster_that_it_lands_on(checkout: Repository) -> None:
    crowded(checkout)
    checkout.git("switch", "--quiet", "--create", "branch")
    checkout.commit()
    checkout.git("branch", "--force", "main")
    checkout.replace(f"{GPT2}/job.yaml", "warmupSteps:", "warmupSteps: # the same\n     ")
    assert told(checkout.report("--changed", "main")) == []

    checkout.copy_job(LLAMA, "jobs/research/llama-8b-third")
    (finding,) = told(checkout.report("--changed", "main"))
    assert "3 jobs" in finding["message"]
    assert finding["jobs"] == ["jobs/research/llama-8b-third"]


def test_a_job_that_cannot_be_read_hides_the_sum_and_breaks_nothing(checkout: Repository) -> None:
    crowded(checkout)
    checkout.write(f"{SECOND}/job.yaml", "spec: [\n")

    report = checkout.report()

    assert (report["summary"]["exit_code"], told(report)) == (2, [])


def test_this_repositorys_own_jobs_fit(checkout: Repository) -> None:
    shutil.rmtree(checkout.root / "jobs")
    shutil.copytree(HOME / "jobs", checkout.root / "jobs")

    assert told(checkout.report()) == []
