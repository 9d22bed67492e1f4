"""Whether the jobs of a cluster fit there beside each other: what no job shows by itself."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.repository.listed import JOB_FILES, all_jobs
from trainyard.rules.registry import declare
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

OVERBOOKED = declare(
    "RES012",
    "cluster-overbooked",
    Severity.WARNING,
    """The jobs of a cluster that wait in no queue ask for more nodes together than the cluster has.

    Argo CD and Flux create every job at once. kube-scheduler places pod by pod, as they come: two jobs that each get
    half of their pods hold those nodes and wait for the other half, until a rendezvous gives up. A job with a component
    of base/queue starts as a whole or waits without holding anything, and is not counted. What has ended still counts
    while its folder is there: the files do not say so.

    Judged only where all jobs are: `lint-jobs` without a path, and `--changed` for clusters that a job of it runs on.

    Bad:
        # clusters/gpu-east/facts/cluster.yaml; the jobs there ask for 4 + 16 + 2 + 16 + 2 + 4 nodes
        spec: {nodes: 32}

    Good:
        # kustomization.yaml of a job with 16 nodes: it waits until they are free
        components:
        - ../../../base/queue/kueue

    Source: https://kueue.sigs.k8s.io/docs/overview/,
    https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """,
)

_QUEUED = re.compile(r"^ *- +[\w./-]*/base/queue/\w+ *(?:#.*)?$", re.MULTILINE)


_NODES = re.compile(r"^  nodes: *(\d{1,9}) *(?:#.*)?$", re.MULTILINE)
"""How spec.nodes is nearly always written. A parser that keeps positions takes longer than all else of a warm lint."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """The nodes that a job takes while it runs."""

    job: str
    nodes: int


def overbooked(root: Path, concerned: Collection[str], sources: Sources, *, changed: bool) -> list[Finding]:
    """A finding for each cluster that all jobs together do not fit on, if the first of them is among `concerned`, which
    are job folders, so that one of several shards tells it; where they are what was `changed`, if any of them is.

    Nothing where a job or a fact cannot be read: that is told elsewhere.
    """
    asks: dict[str, list[_Ask]] = defaultdict(list)
    try:
        jobs = all_jobs(root, sources)
        there = {job.cluster for job in jobs if job.folder in concerned}
        for job in jobs:
            if job.cluster in there and (ask := _ask(job.folder, sources)) is not None:
                asks[job.cluster].append(ask)
    except InputError:
        return []
    told = {cluster: each for cluster, each in asks.items() if changed or each[0].job in concerned}
    found = (_over(cluster, each, concerned, sources) for cluster, each in sorted(told.items()))
    return [finding for finding in found if finding is not None]


def _ask(folder: str, sources: Sources) -> _Ask | None:
    """What a job asks for on its own; None where a queue holds it back."""
    if _QUEUED.search(sources.text(f"{folder}/{JOB_FILES[0]}")):
        return None
    file = f"{folder}/{JOB_FILES[1]}"
    written = _NODES.findall(sources.text(file))
    nodes = int(written[0]) if len(written) == 1 else _number(_field(sources, file, "spec", "nodes"))
    return _Ask(folder, nodes or 1)


def _position(ask: _Ask, sources: Sources) -> Position | None:
    node = _field(sources, f"{ask.job}/{JOB_FILES[1]}", "spec", "nodes")
    return None if node is None else node.mark


def _over(cluster: str, asks: Iterable[_Ask], concerned: Collection[str], sources: Sources) -> Finding | None:
    try:
        node = _field(sources, f"clusters/{cluster}/facts/cluster.yaml", "spec", "nodes")
    except InputError:
        return None
    asks, has = list(asks), _number(node)
    total = sum(ask.nodes for ask in asks)
    if has is None or total <= has or len(asks) < 2:
        return None
    related = tuple(
        Place(f"TrainingJob/{ask.job.rpartition('/')[2]}", "spec.nodes", _position(ask, sources), f"takes {ask.nodes}")
        for ask in asks
    )
    return Finding(
        OVERBOOKED.id,
        OVERBOOKED.name,
        OVERBOOKED.severity,
        f"{len(asks)} jobs of {cluster} without a queue ask for {total} nodes, and it has {has}: "
        "some may wait with half of their pods",
        Place(f"Cluster/{cluster}", "spec.nodes", node.mark if node is not None else None, f"{total - has} too few"),
        related,
        "list a component of base/queue in the larger ones, or remove the folders of runs that have ended",
        tuple(ask.job for ask in asks if ask.job in concerned),
    )


def _field(sources: Sources, file: str, *path: str) -> Node | None:
    documents = sources.documents(file)
    return documents[0].at(path) if documents else None


def _number(node: Node | None) -> int | None:
    plain = node.plain() if node is not None else None
    return plain if type(plain) is int and plain > 0 else None
