"""What is rehearsed: a job folder as it renders, or plain manifests, and where each value was written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainyard.errors import Fault, InputError, UsageError
from trainyard.gitops.cluster import Platforms
from trainyard.kustomize.rendered import render_alone
from trainyard.objects.manifests import read_manifests
from trainyard.objects.objects import Object
from trainyard.objects.origin import Origin
from trainyard.objects.unit import Unit
from trainyard.rehearse.scale import Scale, rendered_smaller, smaller_spec
from trainyard.rehearse.smaller import OF_A_NODE, OF_ALL, USUAL, NotScaled, smaller
from trainyard.repository.discover import Target, TargetKind, discover
from trainyard.rules.common.world import one_a_gpu, ranks
from trainyard.workload.model import Launch, Workload
from trainyard.workload.of_unit import workloads
from trainyard.yaml.sources import Sources


@dataclass(frozen=True, slots=True)
class RehearsalJob:
    """One training job, at the size of the rehearsal."""

    name: str
    workload: Workload
    full: Workload
    """The job at the size that is written."""
    unit: Unit
    """All that is applied, at the size that is written."""
    ranks: int | None
    """Ranks that train, at the size of the rehearsal; None where manifests do not tell."""
    full_ranks: int | None
    """The same at the size that is written."""
    origin: Origin
    sources: Sources
    size: str = ""
    """Why plain manifests run at the size that is written, though it is not that of a rehearsal."""


def load(root: Path, path: str, cwd: Path, scale: Scale, work: Path) -> RehearsalJob:
    """The one training job at `path`, scaled in the empty folder `work`.

    UsageError where the path names none or several; InputError, with its place, where it cannot be rendered.
    """
    found = discover([path], root, cwd)
    if found.errors:
        raise found.errors[0]
    if len(found.targets) != 1:
        raise UsageError(f"{path} holds {len(found.targets) or 'no'} targets; name one job folder or manifest file")
    target, sources = found.targets[0], Sources(root)
    if target.kind is TargetKind.MANIFESTS:
        for file in target.files:
            sources.documents(file)  # no rehearsal of one of two values
        unit, origin = read_manifests(target.name, target.files, sources)
        return _plain(target.name, unit, origin, sources, scale)
    return _folder(root, target, sources, scale, work)


def _plain(name: str, unit: Unit, origin: Origin, sources: Sources, scale: Scale) -> RehearsalJob:
    full = _only_job(unit)
    try:
        job, why = smaller(unit, full, scale), ""
    except NotScaled as reason:
        if scale.nodes is not None or scale.gpus_per_node is not None:
            raise InputError(f"cannot be rehearsed at another size than its own: {reason}", name) from None
        job, why = full, str(reason)
    return RehearsalJob(name, job, full, unit, _ranks(job), _ranks(full), origin, sources, why)


def _ranks(job: Workload) -> int | None:
    """Ranks that its launcher starts, or those that its GPUs could take where it is told of fewer, or of no peers."""
    started, mains = ranks(job), [pod_set.main() for pod_set in job.pod_sets]
    launches = [main.launch for main in mains if main is not None and main.launch is not None]
    return max(started, one_a_gpu(job) or 0) if started and any(map(_of_its_pod, launches)) else started


def _of_its_pod(launch: Launch) -> bool:
    """Whether a launcher may count the ranks of its own pod alone."""
    processes = launch.option("num_processes")
    alone = launch.option("np") is not None or launch.option("standalone") is not None
    return alone or (processes is not None and processes.implied)


def _folder(root: Path, target: Target, sources: Sources, scale: Scale, work: Path) -> RehearsalJob:
    bare, own, reads = render_alone(root, target, sources)
    unit, origin = Platforms(root, sources).under(bare, own)
    training_job, asked = bare.fact("TrainingJob"), scale
    if training_job is None:
        return _plain(target.name, unit, origin, sources, asked)
    scale = Scale(scale.nodes or USUAL.nodes, scale.gpus_per_node or USUAL.gpus_per_node)
    if any(item.kind == "TFJob" for item in bare.objects) and scale.gpus_per_node is not None:
        scale = replace(scale, gpus_per_node=1)  # under TensorFlow a worker without GPUs is one replica
    smaller = rendered_smaller(root, target.name, reads, training_job, scale, work)
    objects = tuple(Object.of(data, index) for index, data in enumerate(smaller.objects))
    if [item.title for item in objects] != [item.title for item in bare.objects]:
        raise Fault(f"{target.name} renders to other objects with fewer nodes")
    job, full = _only_job(replace(unit, objects=objects)), _only_job(unit)
    spec, whole = smaller_spec(training_job, scale), smaller_spec(training_job, Scale())
    if _in_step(full, whole) and not _in_step(job, spec) and _counts(job):  # numbers of its own, that are right
        return _plain(target.name, unit, origin, sources, asked)
    of_spec, of_whole = spec["nodes"] * spec["gpusPerNode"], whole["nodes"] * whole["gpusPerNode"]
    started, of_full = ranks(job), ranks(full)
    if started and of_full and not _in_step(full, whole) and _counts(job):  # too few or too many, as at full size
        of_spec = max(1, started * of_whole // of_full)
    return RehearsalJob(target.name, job, full, unit, of_spec, of_whole, origin, sources)


def _in_step(job: Workload, spec: Mapping[str, Any]) -> bool:
    """Whether a job's launcher starts as many ranks as its nodes have GPUs; True where manifests do not tell."""
    return ranks(job) in (None, spec["nodes"] * spec["gpusPerNode"])


def _counts(job: Workload) -> bool:
    """Whether a launcher is told on its command line how many ranks to start."""
    mains = [pod_set.main() for pod_set in job.pod_sets]
    launches = [main.launch for main in mains if main is not None and main.launch is not None]
    return any(
        name in OF_A_NODE + OF_ALL and not each.implied for launch in launches for name, each in launch.options.items()
    )


def _only_job(unit: Unit) -> Workload:
    found = workloads(unit)
    if len(found) != 1:
        raise InputError(f"holds {len(found) or 'no'} training jobs of a known kind; a rehearsal takes one", unit.name)
    if not found[0].pods:
        raise InputError("the job's pods cannot be told from its manifests, so there is nothing to start", unit.name)
    return found[0]
