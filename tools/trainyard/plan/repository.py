"""A job of this repository, and the team's quota, from the folders that kustomize reads."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainyard.errors import InputError, UsageError
from trainyard.gitops.cluster import Platforms
from trainyard.kustomize.kustomization import load_graph
from trainyard.kustomize.render import render_one
from trainyard.kustomize.rendered import render_alone
from trainyard.kustomize.replay import replay
from trainyard.objects.origin import Origin
from trainyard.objects.quantity import quantity
from trainyard.objects.unit import Unit
from trainyard.plan.job import Job, Unplannable, environment_of, job_of, run_of
from trainyard.plan.run import Run
from trainyard.repository.discover import TargetKind, discover
from trainyard.workload.of_unit import workloads
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

GPU = "requests.nvidia.com/gpu"


def load(root: Path, path: str, cwd: Path, cluster: str | None) -> tuple[Job, Run, int | None]:
    """A job folder's facts, run and quota in GPUs, on its own cluster or another.

    InputError, with its place, where the folder is not a job that can be planned; UsageError where the path is none.
    """
    found = discover([path], root, cwd)
    if found.errors:
        raise found.errors[0]
    targets = [target for target in found.targets if target.kind is TargetKind.JOB]
    if len(targets) != 1:
        raise UsageError(f"{path} holds {len(targets) or 'no'} jobs; name one job folder")
    sources = Sources(root)
    origin: Origin
    unit, origin, _ = render_alone(root, targets[0], sources)
    with suppress(InputError):  # a TrainJob has its variables from the cluster's runtime
        unit, origin = Platforms(root, sources).under(unit, origin)
    facts = {kind: unit.fact(kind) for kind in ("TrainingJob", "Cluster", "Fabric")}
    if cluster is not None:
        other = facts_of(sources, cluster)
        job = job_of(_data(facts["TrainingJob"]), other["Cluster"], other["Fabric"], environment(unit))
    else:
        training_job, own, fabric = (_data(fact) for fact in facts.values())
        job = job_of(training_job, own, fabric, environment(unit))
    try:
        run = run_of(job)
    except Unplannable as error:
        fact = facts[error.kind] if cluster is None or error.kind == "TrainingJob" else None
        at = None if fact is None else origin.position(fact, error.path)
        file, line, column = (at.file, at.line, at.column) if at else (targets[0].name, 0, 0)
        raise InputError(error.reason, file, line, column, error.help) from None
    team = targets[0].name.split("/")[-2] if "/" in targets[0].name else ""
    return job, run, quota(root, job.cluster, team)


def environment(unit: Unit) -> dict[str, str]:
    """The environment of a unit's ranks."""
    for workload in workloads(unit):
        if found := environment_of(workload.pod_sets):
            return found
    return {}


def quota(root: Path, cluster: str, team: str) -> int | None:
    """GPUs that a team may have on a cluster; None where no platform folder says."""
    folder = f"clusters/{cluster}/platform/{team}"
    if not team or not (root / folder).is_dir():
        return None
    try:
        load_graph(Sources(root), folder)
    except InputError:
        return None
    rendering = render_one(root, folder)
    for item in rendering.objects:
        hard = (item.get("spec") or {}).get("hard") if item.get("kind") == "ResourceQuota" else None
        if isinstance(hard, Mapping) and (amount := quantity(hard.get(GPU))) is not None:
            return int(amount)
    return None


def facts_of(sources: Sources, cluster: str) -> dict[str, Mapping[str, Any]]:
    """The Cluster and the Fabric of a cluster. UsageError, with the names there are, where it is none."""
    folder = f"clusters/{cluster}/facts"
    there = sorted(file.parent.parent.name for file in sources.root.glob("clusters/*/facts/kustomization.yaml"))
    if cluster not in there:
        raise UsageError(f"--cluster {cluster}: there are {', '.join(there) or 'no clusters'}")
    found: dict[str, Mapping[str, Any]] = {}
    for node in replay(sources.root, folder, sources).facts:
        kind = node.at(("kind",))
        if isinstance(kind, Node):
            found[str(kind.value)] = node.plain()
    missing = {"Cluster", "Fabric"} - set(found)
    if missing:
        raise InputError(f"holds no {' and no '.join(sorted(missing))}", folder)
    return found


def _data(fact: Any) -> Mapping[str, Any]:
    data: Mapping[str, Any] = fact.data if fact is not None else {}
    return data
