"""What one job of the chain measured: its log, its objects' moments, Prometheus, DCGM and TensorBoard."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainyard.benchmark import moments
from trainyard.benchmark.board import scalars
from trainyard.benchmark.prometheus import Prometheus, firmware, phases, usage
from trainyard.controlplane.client import Client, Refused
from trainyard.errors import Fault

Json = dict[str, Any]

WORKLOAD_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
_INDEX = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index")
_ASSIGNED = re.compile(r"assigned \S+/(\S+) to (\S+)$")
_ROLE = "training.kubeflow.org/job-role"


def collect(client: Client, job: Json, server: Prometheus | None, board: Path | None) -> Json:
    """Everything about a job that has ended; `job` says its apiVersion, kind, namespace and name."""
    found = client.get(job)
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
    pods = client.list("v1", "Pod", namespace, f"trainyard.dev/job={name}")
    if not pods:
        raise Fault(f"{name} has no pods any more: its log and its moments are gone")
    log = client.text(client.path(voice(pods), below="log"), {"timestamps": "true"})
    events = client.list("v1", "Event", namespace)
    lines = spoken(log)
    steps = [line for line in lines if "step" in line and "step_seconds" in line]
    begin, end = span(pods)
    places = assigned(events, name) | {host(pod): pod["spec"]["nodeName"] for pod in ranks_of(pods)}
    return {
        "kubernetes": moments.seconds(found, pods, events, _workload(client, found), log),
        "nodes": places,
        "bench": next((line for line in lines if "collectives" in line), None),
        "result": next((line for line in reversed(lines) if "final_loss" in line), None),
        "steps": (scalars(board) if board else []) or steps,
        "usage": usage(server, set(places.values()), begin, end) if server else {},
        "phases": phases(server, namespace, name, begin, end) if server else {},
        "firmware": firmware(server, end) if server else {},
        "begin": begin,
        "end": end,
    }


def voice(pods: Sequence[Json]) -> Json:
    """The pod whose log is the run's: the launcher, or the pod of rank 0; of several attempts the last."""
    launchers = [pod for pod in pods if pod["metadata"]["labels"].get(_ROLE) == "launcher"]
    first = launchers or [pod for pod in pods if index_of(pod) == 0] or list(pods)
    return max(first, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))


def ranks_of(pods: Sequence[Json]) -> list[Json]:
    """The pods that ranks run in and that have a node, in the order of their ranks."""
    workers = [
        pod for pod in pods if pod["metadata"]["labels"].get(_ROLE) != "launcher" and pod["spec"].get("nodeName")
    ]
    return sorted(workers, key=lambda pod: (index_of(pod), pod["metadata"]["name"]))


def assigned(events: Sequence[Json], job: str) -> dict[str, str]:
    """Nodes of a job's workers by the scheduler's events: an MPIJob that has ended deletes its workers."""
    found = {}
    for event in events:
        place = _ASSIGNED.search(event.get("message") or event.get("note") or "")
        if event.get("reason") == "Scheduled" and place and place[1].startswith(f"{job}-worker-"):
            found[place[1]] = place[2]
    return found


def index_of(pod: Json) -> int:
    """A pod's place in its job; those that have none come last."""
    labels: Mapping[str, str] = pod["metadata"].get("labels", {})
    return next((int(labels[name]) for name in _INDEX if name in labels), 1 << 30)


def host(pod: Json) -> str:
    """What a rank calls its host."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def spoken(log: str) -> list[Json]:
    """The JSON objects of a log with times before its lines."""
    found = []
    for line in log.splitlines():
        text = line.partition(" ")[2]
        if text.startswith("{"):
            try:
                said = json.loads(text)
            except ValueError:
                continue
            found.append(said)
    return found


def span(pods: Sequence[Json]) -> tuple[float, float]:
    """When the first container began and the last one ended, Unix time."""
    states = [status.get("state", {}) for pod in pods for status in pod.get("status", {}).get("containerStatuses", [])]
    ends = [state["terminated"] for state in states if state.get("terminated")]
    running = [state["running"] for state in states if state.get("running")]
    begun = [_unix(state["startedAt"]) for state in (*ends, *running) if state.get("startedAt")]
    ended = [_unix(state["finishedAt"]) for state in ends if state.get("finishedAt")]
    now = datetime.now(UTC).timestamp()
    return min(begun, default=now), max(ended, default=now)


def _workload(client: Client, job: Json) -> Json | None:
    """Kueue's object for a job, where Kueue is there and queued it."""
    for version in WORKLOAD_VERSIONS:
        if not client.serves(version, "Workload"):
            continue
        try:
            items = client.list(version, "Workload", job["metadata"]["namespace"])
        except Refused:
            return None
        for item in items:
            owners = item["metadata"].get("ownerReferences", [])
            if any(owner.get("uid") == job["metadata"]["uid"] for owner in owners):
                return item
    return None


def _unix(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
