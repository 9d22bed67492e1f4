"""Kubernetes' own part of a run: seconds from a job's creation to its first step, by what they were spent on.

A moment is reached when the last pod reaches it, for no rank starts before all are there. What no object tells is left
out, and its time counts to the next moment that is known.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

MOMENTS = ("queue", "admission", "pods", "scheduling", "image pull", "start", "rendezvous", "first step")
"""In their order: Kueue reserved quota; admitted; pods exist; have nodes; have images; run; ranks met; a step ended."""
RENDEZVOUS = re.compile(r"^rendezvous: \d+ ranks? met")
_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z (.*)$")


def seconds(
    job: Json, pods: Iterable[Json], events: Iterable[Json], workload: Json | None = None, log: str = ""
) -> dict[str, float]:
    """Seconds of each part. `log` is rank 0's, each line behind its time, as `kubectl logs --timestamps` has it."""
    pods = list(pods)
    reached: dict[str, float | None] = {
        "queue": _condition(workload or {}, "QuotaReserved"),
        "admission": _condition(workload or {}, "Admitted"),
        "pods": _last(_time(pod["metadata"].get("creationTimestamp")) for pod in pods),
        "scheduling": _last(_condition(pod, "PodScheduled") for pod in pods),
        "image pull": _pulled(pods, events),
        "start": _last(_started(pod) for pod in pods),
        **_of_log(log),
    }
    parts, before = {}, _time(job["metadata"]["creationTimestamp"]) or 0.0
    for name in MOMENTS:
        at = reached.get(name)
        if at is not None:
            parts[name] = round(max(0.0, at - before), 3)
            before = max(before, at)
    return parts


def _of_log(log: str) -> dict[str, float | None]:
    """When ranks had met, and when the first step had ended."""
    met = first = None
    for line in log.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        at, text = _time(f"{found[1]}{found[2] or ''}Z"), found[3]
        if met is None and RENDEZVOUS.match(text):
            met = at
        if first is None and text.startswith("{") and (said := _json(text)) and "step" in said:
            # the first line may tell of a later step than the first
            first = (at or 0.0) - (int(said["step"]) - 1) * float(said.get("step_seconds", 0.0))
            if met is not None:
                first = max(first, met)
    return {"rendezvous": met, "first step": first}


def _pulled(pods: Iterable[Json], events: Iterable[Json]) -> float | None:
    """When the last pod had its images, by the kubelets' events."""
    names = {pod["metadata"]["name"] for pod in pods}
    return _last(
        _time(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))
        for event in events
        if event.get("reason") == "Pulled" and event.get("involvedObject", {}).get("name") in names
    )


def _started(pod: Json) -> float | None:
    """When the last container of a pod began."""
    times = []
    for status in pod.get("status", {}).get("containerStatuses", []):
        state: Mapping[str, Any] = status.get("state", {})
        times.append(_time((state.get("running") or state.get("terminated") or {}).get("startedAt")))
    return _last(times)


def _condition(item: Json, kind: str) -> float | None:
    """When a condition became true."""
    for condition in item.get("status", {}).get("conditions", []):
        if condition["type"] == kind and condition["status"] == "True":
            return _time(condition.get("lastTransitionTime"))
    return None


def _last(times: Iterable[float | None]) -> float | None:
    """The latest, or None where one of them is not known."""
    known = list(times)
    return max((time for time in known if time is not None), default=None) if None not in known else None


def _time(text: str | None) -> float | None:
    """Unix time of a timestamp of Kubernetes, which may have nanoseconds."""
    if not text:
        return None
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    return seconds + (float(f"0.{rest}") if rest else 0.0)


def _json(text: str) -> Json | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
