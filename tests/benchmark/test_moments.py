"""Kubernetes' own part of a run, from objects as a cluster has them."""

from typing import Any

import pytest

from trainyard.benchmark.collect import assigned, spoken, voice
from trainyard.benchmark.moments import seconds

Json = dict[str, Any]
LOG = """\
2026-01-01T00:02:10.500000000Z rendezvous: 16 ranks met after 9.1 s
2026-01-01T00:02:31.000000000Z {"step": 10, "step_seconds": 2.0, "loss": 9.1}
2026-01-01T00:02:33.000000000Z {"step": 11, "step_seconds": 2.0, "loss": 9.0}
"""


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def pod(index: int, created: int, placed: int, started: int) -> Json:
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "metadata": {"name": f"run-{index}", "creationTimestamp": at(created), "labels": labels},
        "spec": {"nodeName": f"node-{index}", "hostname": f"run-{index}"},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(placed)}],
            "containerStatuses": [{"state": {"running": {"startedAt": at(started)}}}],
        },
    }


def event(name: str, reason: str, second: int, message: str = "") -> Json:
    involved = {"kind": "Pod", "name": name}
    return {
        "metadata": {},
        "reason": reason,
        "involvedObject": involved,
        "lastTimestamp": at(second),
        "message": message,
    }


JOB = {"metadata": {"name": "run", "creationTimestamp": at(0)}}
WORKLOAD = {
    "status": {
        "conditions": [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": at(30)},
            {"type": "Admitted", "status": "True", "lastTransitionTime": at(31)},
        ]
    }
}
PODS = [pod(0, 32, 34, 110), pod(1, 33, 40, 115)]
EVENTS = [event("run-0", "Pulled", 100), event("run-1", "Pulled", 108), event("other-0", "Pulled", 119)]


def test_each_part_ends_when_the_last_pod_is_there() -> None:
    assert seconds(JOB, PODS, EVENTS, WORKLOAD, LOG) == {
        "queue": 30.0,
        "admission": 1.0,
        "pods": 2.0,
        "scheduling": 7.0,
        "image pull": 68.0,
        "start": 7.0,
        "rendezvous": 15.5,
        # step 10 ended at 151 s, nine steps of 2 s after the first
        "first step": 2.5,
    }


@pytest.mark.claim("unsaid-moments")
def test_what_nobody_says_counts_to_the_next_moment() -> None:
    assert seconds(JOB, PODS, [], None, "") == {"pods": 33.0, "scheduling": 7.0, "start": 75.0}


def test_a_pod_that_has_no_node_yet_ends_the_account() -> None:
    waiting = {**pod(1, 33, 40, 115), "status": {}}
    assert seconds(JOB, [PODS[0], waiting], [], None, "") == {"pods": 33.0}


def test_the_log_is_that_of_the_first_rank_and_objects_in_it_are_found() -> None:
    assert voice(PODS)["metadata"]["name"] == "run-0"
    assert [line["step"] for line in spoken(LOG)] == [10, 11]


def test_workers_that_are_gone_are_known_by_events() -> None:
    said = [event("run-worker-1", "Scheduled", 5, "Successfully assigned benchmark/run-worker-1 to node-7")]
    said.append(event("run-launcher", "Scheduled", 5, "Successfully assigned benchmark/run-launcher to system"))
    assert assigned(said, "run") == {"run-worker-1": "node-7"}
