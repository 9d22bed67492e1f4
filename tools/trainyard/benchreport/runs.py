"""Benchmark runs and locked baselines, as files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from trainyard.errors import InputError
from trainyard.home import HOME

SCHEMAS = HOME / "schemas" / "trainyard.dev"
API_VERSION = "trainyard.dev/v1alpha1"
MOST_BYTES = 256 << 20

Fingerprint = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Node:
    """What one node measured and how it was used."""

    ranks: tuple[int, ...]
    measures: Mapping[str, tuple[float, ...]]
    """A value a rank, in the order of `ranks`."""
    usage: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Workload:
    """One program of a run: a training job, or the collectives."""

    steps: tuple[Mapping[str, Any], ...] = ()
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of each node, seconds of a step by what they went into."""
    kubernetes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the benchmark."""

    name: str
    finished: str
    measures: Mapping[str, float]
    nodes: Mapping[str, Node]
    workloads: Mapping[str, Workload]
    document: Mapping[str, Any]
    """The file as it was read."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Locked runs and their fingerprint."""

    name: str
    fingerprint: Fingerprint
    runs: tuple[Run, ...]


def read_runs(files: Sequence[Path]) -> list[tuple[Run, Fingerprint]]:
    """Runs by the time at which they finished. Raises InputError where a file is not a run or a name stands twice."""
    found: dict[str, tuple[Run, Fingerprint]] = {}
    for file in files:
        document = _read(file, "BenchmarkRun")
        run = _run(document)
        if run.name in found:
            raise InputError(f"has the name {run.name}, which another file has too", str(file))
        found[run.name] = run, document["fingerprint"]
    return sorted(found.values(), key=lambda pair: (pair[0].finished, pair[0].name))


def read_baseline(file: Path) -> Baseline:
    """A locked baseline. Raises InputError."""
    document = _read(file, "BenchmarkBaseline")
    return Baseline(document["name"], document["fingerprint"], tuple(map(_run, document["runs"])))


def lock(name: str, runs: Sequence[tuple[Run, Fingerprint]]) -> str:
    """The text of a baseline of runs that are alike: UsageError is the caller's where they are not."""
    kept = ("name", "finished", "measures", "nodes", "workloads")
    document = {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkBaseline",
        "name": name,
        "fingerprint": runs[0][1],
        "runs": [{key: run.document[key] for key in kept if key in run.document} for run, _ in runs],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def differences(there: Fingerprint, here: Fingerprint) -> list[str]:
    """What differs between two fingerprints, a line each."""
    lines = []
    for part in sorted({*there, *here}):
        before, after = there.get(part, {}), here.get(part, {})
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                lines.append(f"{part}.{key}: {before.get(key, 'not stated')} -> {after.get(key, 'not stated')}")
    return lines


def _run(document: Mapping[str, Any]) -> Run:
    nodes = {
        name: Node(
            tuple(node["ranks"]),
            {measure: tuple(map(float, values)) for measure, values in node["measures"].items()},
            node.get("usage", {}),
        )
        for name, node in document["nodes"].items()
    }
    workloads = {
        name: Workload(tuple(said.get("steps", ())), said.get("phases", {}), said.get("kubernetes", {}))
        for name, said in document.get("workloads", {}).items()
    }
    return Run(document["name"], document["finished"], document["measures"], nodes, workloads, document)


def _read(file: Path, kind: str) -> Any:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"is larger than {MOST_BYTES >> 20} MiB", str(file))
        document = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refused)
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or 'unknown').lower()}", str(file)) from None
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", str(file), error.lineno, error.colno) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", str(file)) from None
    said = document.get("kind") if isinstance(document, dict) else None
    if said != kind:
        raise InputError(f"is not a {kind}: its kind is {said!r}", str(file))
    for wrong in _validator(kind).iter_errors(document):
        place = ".".join(map(str, wrong.instance_path)) or "the whole file"
        raise InputError(f"{place}: {wrong.message[:300]}", str(file))
    return document


def _refused(word: str) -> float:
    raise ValueError(f"{word} is not a number")


@cache
def _validator(kind: str) -> Any:
    schema = json.loads((SCHEMAS / f"{kind.lower()}_v1alpha1.json").read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for(schema)
