"""Plain manifests with fewer nodes and ranks: every field that says how many, changed together or not at all."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.rehearse.scale import Scale
from trainyard.rules.common.starts import nodes
from trainyard.rules.common.world import per_pod, ranks
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.of_unit import workloads
from trainyard.workload.plain import count, entries, mapping, text

USUAL = Scale(2, 2)
"""What a job is scaled down to where nobody says a size."""
_OF_NODES = ("nnodes", "num_nodes", "num_machines")
OF_A_NODE = ("nproc_per_node", "num_gpus")
OF_ALL = ("np", "num_processes")
_MARKS = {"np": r"(?:-n|-np|--np|-c|--num[-_]proc)"}
_SCALED = (("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("kubeflow.org", "PyTorchJob"), ("kubeflow.org", "MPIJob"))
_BATCH = ("TRAINER_MICRO_BATCH", "TRAINER_ACCUMULATION", "TRAINER_GLOBAL_BATCH")


class NotScaled(Exception):
    """Why a job runs at the size that is written."""


@dataclass(frozen=True, slots=True)
class _Size:
    nodes: int
    per_node: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node


@dataclass(frozen=True, slots=True)
class _Edit:
    spot: Spot
    value: Any
    option: str = ""
    """The launcher's option whose value is in the text that stands there; empty where the value is all of it."""
    before: str = ""
    """That option's value until now."""


def smaller(unit: Unit, job: Workload, asked: Scale) -> Workload:
    """The job at another size: the one that is asked for, else two nodes of two ranks where it is larger.

    NotScaled where that cannot be done without a guess: counts that do not fit each other are what a rehearsal is to
    find, and stay.
    """
    sets = [each for each in job.pod_sets if _trains(each)]
    before = _written(job, sets)
    after = _Size(
        asked.nodes or min(before.nodes, USUAL.nodes or before.nodes),
        asked.gpus_per_node or min(before.per_node, USUAL.gpus_per_node or before.per_node),
    )
    if after == before:
        return job
    if ranks(job) != before.ranks:
        raise NotScaled(
            f"its launcher starts {ranks(job) or 'an unknown number of'} ranks, and {before.nodes} pods of "
            f"{before.per_node} GPUs are {before.ranks}"
        )
    edits = [*_counts(job, sets, before, after)]
    for pod_set in job.pod_sets:
        for container in pod_set.containers:
            edits += _of_container(container, before, after)
    found = _applied(unit, edits)
    if len(found) != 1 or ranks(found[0]) != after.ranks or not _meets(found[0], after):
        raise NotScaled(
            f"its manifests do not come to {after.ranks} ranks with {after.nodes} nodes of {after.per_node}"
        )
    return found[0]


def _meets(job: Workload, after: _Size) -> bool:
    """Whether there are as many nodes, and every launcher waits for that many."""
    sets = [each for each in job.pod_sets if _trains(each)]
    if sum(each.count.value or 0 for each in sets) != after.nodes:
        return False
    for pod_set in sets:
        main = pod_set.main()
        if main is None or main.launch is None:
            continue
        said, bounds = main.launch.option("nnodes"), nodes(main.launch)
        if said is None or said.implied:
            continue
        if bounds is None or not bounds.value[0] <= after.nodes <= bounds.value[1]:
            return False
    return True


def _trains(pod_set: PodSet) -> bool:
    main = pod_set.main()
    return main is not None and bool(main.gpus or (main.launch is not None and main.launch.launcher == "torchrun"))


def _written(job: Workload, sets: Sequence[PodSet]) -> _Size:
    mains = [main for each in sets if (main := each.main()) is not None]
    each = {main.gpus or per_pod(main) for main in mains}
    counts = [pod_set.count.value for pod_set in sets]
    if (job.object.group, job.object.kind) not in _SCALED:
        raise NotScaled(f"a {job.object.kind} of {job.object.api_version} is not scaled from plain manifests")
    if not sets or None in counts:
        raise NotScaled("no container asks for GPUs or starts torchrun" if not sets else "its pods cannot be counted")
    size = each.pop()
    if each or not size:
        raise NotScaled("its pods do not have the same number of GPUs")
    return _Size(sum(counts), size)


def _counts(job: Workload, sets: Sequence[PodSet], before: _Size, after: _Size) -> Iterator[_Edit]:
    """The fields by which a controller makes pods."""
    if before.nodes == after.nodes and job.object.kind != "MPIJob":
        return
    spec = mapping(job.object.data.get("spec"))
    at = job.object.at("spec")
    match job.object.kind:
        case "Job":
            yield from (_Edit(at.below(name), after.nodes) for name in ("completions", "parallelism") if name in spec)
        case "JobSet":
            yield from _of_jobset(at, spec, sets, after)
        case "PyTorchJob":
            workers = next((each for each in sets if each.role == "worker"), None)
            if workers is None or after.nodes < len(sets):
                raise NotScaled(f"a master alone is one node, and {after.nodes} are asked for")
            yield _Edit(workers.count.spot, after.nodes - (len(sets) - 1))
            policy = mapping(spec.get("elasticPolicy"))
            for name in ("minReplicas", "maxReplicas"):
                if (number := count(policy.get(name))) is not None and (number > after.nodes or name == "maxReplicas"):
                    yield _Edit(at.below("elasticPolicy", name), after.nodes)
        case _:
            workers = next((each for each in sets if each.role == "worker"), None)
            if workers is None or len(sets) > 1:
                raise NotScaled("its launcher trains too")
            yield _Edit(workers.count.spot, after.nodes)
            if count(spec.get("slotsPerWorker")) == before.per_node:
                yield _Edit(at.below("slotsPerWorker"), after.per_node)


def _of_jobset(at: Spot, spec: Any, sets: Sequence[PodSet], after: _Size) -> Iterator[_Edit]:
    if len(sets) != 1:
        raise NotScaled("several of its replicatedJobs train")
    for index, each in entries(spec.get("replicatedJobs")):
        if each.get("name") != sets[0].role:
            continue
        job = mapping(mapping(each.get("template")).get("spec"))
        below = at.below("replicatedJobs", index)
        if (count(each.get("replicas")) or 1) == 1:
            named = [name for name in ("completions", "parallelism") if name in job]
            yield from (_Edit(below.below("template", "spec", name), after.nodes) for name in named)
        elif (count(job.get("parallelism")) or 1) == 1:
            yield _Edit(below.below("replicas"), after.nodes)
        else:
            raise NotScaled("its nodes are replicas times parallelism")


def _of_container(container: Container, before: _Size, after: _Size) -> Iterator[_Edit]:
    for name, limit in (*container.limits.items(), *container.requests.items()):
        if name.endswith("/gpu") and not limit.implied and count(_number(limit.value)) == before.per_node:
            yield _Edit(limit.spot, after.per_node)
    options = container.launch.options if container.launch is not None else {}
    for name, setting in options.items():
        if setting.implied or setting.spot.object.index < 0:
            continue
        if name in _OF_NODES:
            yield from _option(name, setting, before.nodes, after.nodes)
        elif name in OF_A_NODE and str(setting.value).isdigit():
            yield from _option(name, setting, before.per_node, after.per_node)
        elif name in OF_ALL:
            yield from _option(name, setting, before.ranks, after.ranks)
    world = container.env.get("WORLD_SIZE")
    if world is not None and world.origin in ("env", "configMap"):
        yield from _option("WORLD_SIZE", Setting(world.value, world.spot), before.ranks, after.ranks)
    batch = [container.env.get(name) for name in _BATCH]
    numbers = [int(each.value) for each in batch if each is not None and each.value and each.value.isdigit()]
    if len(numbers) == len(_BATCH) and numbers[0] * numbers[1] * before.ranks == numbers[2] and batch[2] is not None:
        yield _Edit(batch[2].spot, str(numbers[0] * numbers[1] * after.ranks))


def _option(name: str, setting: Setting, before: int, after: int) -> Iterator[_Edit]:
    """A launcher's option, wherever it is written."""
    if before == after:
        return
    old, new = str(setting.value), str(after)
    least, colon, most = old.partition(":")
    if colon and least.isdigit() and most.isdigit():
        new = f"{min(int(least), after)}:{after if int(most) == before else most}"
    elif old != str(before):
        raise NotScaled(f"{name} is {old}, and the pods come to {before}")
    written = _value(setting.spot)
    if isinstance(written, int):
        if str(written) == old:  # else a controller makes it of several counts
            yield _Edit(setting.spot, after)
    elif "$" in text(written) and old not in text(written):
        return  # the variable that it names is changed where it is written
    else:
        yield _Edit(setting.spot, new, name, old)


def _rewritten(name: str, old: str, new: str, written: Any) -> str:
    """A text that holds an option, with another value: `4`, `--nnodes=4`, or the option somewhere in a script."""
    whole = str(written)
    if whole in (old, f"--{name}={old}", f"--{name.replace('_', '-')}={old}"):
        return whole[: len(whole) - len(old)] + new
    mark = _MARKS.get(name, f"--?{name.replace('_', '[-_]')}")
    changed, times = re.subn(rf"((?<!\S){mark}(?:=|\s+)){re.escape(old)}(?!\S)", rf"\g<1>{new}", whole)
    if times != 1:
        raise NotScaled(f"where {name} is written cannot be told")
    return changed


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _value(spot: Spot) -> Any:
    value: Any = spot.object.data
    for step in spot.path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _applied(unit: Unit, edits: Sequence[_Edit]) -> list[Workload]:
    """The jobs of a unit after some edits."""
    copies = {item.index: _copied(item.data) for item in unit.objects}
    for each in dict.fromkeys(edits):
        if each.spot.object.index not in copies:
            raise NotScaled(f"{each.spot.object.title} is not among its manifests")
        _set(copies[each.spot.object.index], each)
    objects = tuple(Object.of(copies[item.index], item.index) for item in unit.objects)
    return list(workloads(replace(unit, objects=objects)))


def _copied(value: Any) -> Any:
    """A copy in which nothing is shared, as what anchors stand for is in a file."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _set(data: Any, edit: _Edit) -> None:
    *parents, last = edit.spot.path
    for step in parents:
        data = data[step]
    data[last] = _rewritten(edit.option, edit.before, edit.value, data[last]) if edit.option else edit.value
