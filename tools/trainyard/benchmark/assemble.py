"""A BenchmarkRun of what the steps of the chain left on the claim."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainyard.errors import InputError

Json = dict[str, Any]

NODES = "nodes.json"
CREATED = "created.json"
COLLECTED = "collected.json"
RANK_MEASURES = ("product_tflops", "memory_gb_per_second")
SPEEDS = ("tokens_per_second", "samples_per_second")


def assemble(folder: Path, name: str) -> Json:
    """The run of one folder: nodes.json, and each job's created.json and collected.json. InputError where one lacks."""
    about = read(folder / NODES)
    jobs = {
        path.parent.name: (read(path.parent / CREATED), read(path)) for path in sorted(folder.glob(f"*/{COLLECTED}"))
    }
    if not jobs:
        raise InputError("has no job that was collected", str(folder))
    end = max(said["end"] for _, said in jobs.values())
    return {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "name": name,
        "finished": datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "fingerprint": {
            **about["fingerprint"],
            "firmware": _firmware(jobs),
            "communication": _communication(jobs),
            "image": {job: ", ".join(created["images"]) for job, (created, _) in jobs.items()},
            "workload": {job: created["digest"] for job, (created, _) in jobs.items()},
        },
        "measures": {key: value for job, (_, said) in jobs.items() for key, value in _measures(job, said).items()},
        "nodes": _nodes([said for _, said in jobs.values()]),
        "workloads": {
            job: {"steps": said["steps"], "phases": said["phases"], "kubernetes": said["kubernetes"]}
            for job, (_, said) in jobs.items()
        },
    }


def read(file: Path) -> Json:
    """A JSON object that an earlier step wrote. InputError."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or 'unknown').lower()}", str(file)) from None
    except ValueError:
        raise InputError("is not JSON", str(file)) from None
    found: Json = said
    return found


def _measures(job: str, said: Mapping[str, Any]) -> dict[str, float]:
    """Of collectives the bus bandwidth at the largest size; of training the speed, both of the whole job."""
    found: dict[str, float] = {}
    for row in (said["bench"] or {}).get("collectives", []):
        if row.get("correct") and row["bus_gb_per_second"] > 0:
            largest = max(other["bytes"] for other in said["bench"]["collectives"] if _same(row, other))
            if row["bytes"] == largest:
                found[f"{job}/{row['collective']}_bus_gb_per_second"] = row["bus_gb_per_second"]
    for name in SPEEDS:
        if (said["result"] or {}).get(name):
            found[f"{job}/{name}"] = said["result"][name]
    return found


def _same(row: Json, other: Json) -> bool:
    return bool(row["collective"] == other["collective"])


def _nodes(jobs: list[Json]) -> dict[str, Json]:
    """Of each node what its ranks measured, and the mean of what each job made of it."""
    names = sorted({node for said in jobs for node in said["nodes"].values()})
    found: dict[str, Json] = {name: {"ranks": [], "measures": {}, "usage": {}} for name in names}
    for said in jobs:
        for rank in (said["bench"] or {}).get("ranks", []):
            node = said["nodes"].get(rank["host"])
            if node is None:
                continue
            found[node]["ranks"].append(rank["rank"])
            for measure in RANK_MEASURES:
                found[node]["measures"].setdefault(measure, []).append(rank[measure])
    for name in names:
        each = [said["usage"].get(name, {}) for said in jobs]
        for measure in dict.fromkeys(key for one in each for key in one):
            values = [one[measure] for one in each if measure in one]
            found[name]["usage"][measure] = sum(values) / len(values)
    return found


def _firmware(jobs: Mapping[str, tuple[Json, Json]]) -> dict[str, str]:
    each = [said["firmware"] for _, said in jobs.values() if said["firmware"]]
    return dict(each[0]) if each else {"all": "not stated"}


def _communication(jobs: Mapping[str, tuple[Json, Json]]) -> dict[str, str]:
    for _, said in jobs.values():
        if said["bench"]:
            return {name: str(said["bench"].get(name) or "not stated") for name in ("backend", "nccl", "torch")}
    return {"all": "not stated"}
