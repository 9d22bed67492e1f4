"""How close Kueue is asked to place the pods of a job: QUE007 and up."""

import re
from collections import defaultdict
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import all_of, put, remove
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import either, items, pairs, word
from trainyard.rules.queues.kueue import GROUP, cluster_queue, flavors
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import digits, mapping

_PREFIX = "kueue.x-k8s.io/podset-"
_REQUIRED, _PREFERRED, _FREE = (f"{_PREFIX}{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
_SLICE, _SLICE_SIZE = f"{_PREFIX}slice-required-topology", f"{_PREFIX}slice-size"
_GROUP = f"{_PREFIX}group-name"
_BOOLEANS = ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
Refusal = tuple[Spot, str, str]


@rule("QUE007", "topology-refused", Severity.ERROR, needs=Workload)
@once
def topology_refused(workload: Workload) -> Iterator[Problem]:
    """What a pod template asks of the topology contradicts itself, and Kueue refuses the job.

    One of required, preferred and unconstrained may stand on a pod template. The first two hold the key of a node
    label, the last is true or false. A slice needs its level and its size, which is at most the number of pods.

    Bad:
        kind: Job
        spec:
          template:
            metadata:
              annotations:
                kueue.x-k8s.io/podset-required-topology: example.com/block
                kueue.x-k8s.io/podset-unconstrained-topology: "true"
    Good:
        kind: Job
        spec:
          template: {metadata: {annotations: {kueue.x-k8s.io/podset-preferred-topology: example.com/block}}}
    Near miss:
        kind: Job
        spec:
          template:
            metadata:
              annotations:
                kueue.x-k8s.io/podset-required-topology: example.com/block
                kueue.x-k8s.io/podset-slice-required-topology: example.com/rack
                kueue.x-k8s.io/podset-slice-size: "2"

    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/controller/jobframework/tas_validation.go
    """
    for pod_set in workload.pod_sets:
        spot = pod_set.template.below("metadata", "annotations")
        for where, said, help in (*_levels(spot), *_slices(spot, _placed(workload, pod_set)), *_group(spot)):
            yield Problem(said, where, help=help)


@rule("QUE008", "topology-misplaced", Severity.WARNING, needs=Workload, fix="safe")
def topology_misplaced(workload: Workload) -> Iterator[Problem]:
    """A job asks for a topology on itself, where Kueue does not look.

    Kueue reads these annotations on pod templates, since each of them is placed by itself. On the job they change
    nothing, and its pods are spread over the whole cluster.

    Bad:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}
    Good:
        kind: Job
        spec: {template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}}}
    Near miss:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}
        spec: {template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}}}

    Source: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    templates = [pairs(pod_set.template.below("metadata", "annotations")) for pod_set in workload.pod_sets]
    for field in ("annotations", "labels"):
        spot = workload.object.at("metadata", field)
        for key in pairs(spot):
            if key.startswith(_PREFIX) and templates and not any(key in template for template in templates):
                yield Problem(
                    f"{key} is read on pod templates alone: the pods may be placed anywhere",
                    spot.below(key),
                    (workload.pod_sets[0].template.below("metadata", label="belongs here"),),
                    "move it to the annotations of the pod template",
                    all_of(
                        (
                            remove(spot.below(key)),
                            *(
                                put(each.template.below("metadata", "annotations", key), pairs(spot)[key])
                                for each in workload.pod_sets
                            ),
                        )
                    ),
                )


@rule("QUE009", "topology-level-unknown", Severity.ERROR, needs=Workload)
@once
def topology_level_unknown(workload: Workload) -> Iterator[Problem]:
    """A job asks for a level of topology that its queue does not have, so it is never admitted.

    The annotation holds a node label that is a level of the Topology, which a ResourceFlavor of the job's ClusterQueue
    names.

    Bad:
        # on: job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec:
          template:
            metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/block}}
            spec: {containers: [{name: trainer, resources: null}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Topology
        metadata: {name: hall}
        spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: gpus}
        spec: {topologyName: hall}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: gpus, resources: [{name: cpu}]}]}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
    Good:
        # on: job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec:
          template:
            metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}
            spec: {containers: [{name: trainer, resources: null}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Topology
        metadata: {name: hall}
        spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: gpus}
        spec: {topologyName: hall}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: gpus, resources: [{name: cpu}]}]}]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
    Near miss:
        # on: job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec: {template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/block}}}}

    Source: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    levels = _known_levels(workload)
    queue = cluster_queue(workload)
    for pod_set in workload.pod_sets if levels is not None else ():
        spot = pod_set.template.below("metadata", "annotations")
        for key in (_REQUIRED, _PREFERRED, _SLICE):
            asked = pairs(spot).get(key)
            if asked and levels is not None and queue is not None and asked not in levels:
                yield Problem(
                    f"queue {queue.name} has no level {asked}: the job is never admitted",
                    spot.below(key),
                    (queue.at("spec", "resourceGroups", label="its flavors"),),
                    f"use {either(levels)}" if levels else "give a flavor of the queue a topologyName",
                )


@rule("QUE010", "topology-group-refused", Severity.ERROR, needs=Workload)
def topology_group_refused(workload: Workload) -> Iterator[Problem]:
    """A group of pod sets is not one that Kueue can place together.

    A group is two pod sets, one of them a single pod, such as a leader and its workers, which ask for one topology.
    Each group of a LeaderWorkerSet is a Workload of its own, with one leader.

    Bad:
        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template:
                metadata:
                  annotations:
                    kueue.x-k8s.io/podset-group-name: all
                    kueue.x-k8s.io/podset-required-topology: example.com/rack
    Good:
        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                metadata:
                  annotations:
                    kueue.x-k8s.io/podset-group-name: all
                    kueue.x-k8s.io/podset-required-topology: example.com/rack
            Worker:
              template:
                metadata:
                  annotations:
                    kueue.x-k8s.io/podset-group-name: all
                    kueue.x-k8s.io/podset-required-topology: example.com/rack
    Near miss:
        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}}

    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/controller/jobframework/tas_validation.go
    """
    groups: dict[str, list[PodSet]] = defaultdict(list)
    for pod_set in workload.pod_sets:
        name = pairs(pod_set.template.below("metadata", "annotations")).get(_GROUP)
        if name:
            groups[name].append(pod_set)
    for name, members in groups.items():
        spots = [member.template.below("metadata", "annotations", _GROUP) for member in members]
        asked = [tuple(map(pairs(spot).get, (_REQUIRED, _PREFERRED))) for spot in _annotations(members)]
        if len(members) != 2:
            said = f"group {name} has {len(members)} pod set{'s' * (len(members) != 1)}, but must have 2"
            yield Problem(said, spots[0], tuple(spots[1:]), "name the same group on exactly two pod templates")
        elif not {1, None} & {_placed(workload, member) for member in members}:
            said = f"no pod set of group {name} is a single pod"
            yield Problem(said, spots[0], (spots[1],), "group a leader of one pod with its workers")
        elif asked[0] != asked[1]:
            said = f"the pod sets of group {name} ask for different topologies"
            yield Problem(said, spots[0], (spots[1],), "ask for the same on both")


def _placed(workload: Workload, pod_set: PodSet) -> int | None:
    """How many pods of a pod set Kueue places at once: of a LeaderWorkerSet those of one group, of others all."""
    pods: int | None = pod_set.count.value
    if workload.object.kind != "LeaderWorkerSet" or pods is None:
        return pods
    groups = mapping(workload.object.data.get("spec")).get("replicas", 1)
    return pods // groups if isinstance(groups, int) and groups > 0 else None


def _annotations(members: list[PodSet]) -> Iterator[Spot]:
    return (member.template.below("metadata", "annotations") for member in members)


def _levels(spot: Spot) -> Iterator[Refusal]:
    told = pairs(spot)
    asked = [key for key in (_REQUIRED, _PREFERRED, _FREE) if key in told]
    if len(asked) > 1:
        yield spot, f"{' and '.join(asked)} exclude each other", "keep one of them"
    for key in (_REQUIRED, _PREFERRED, _SLICE):
        if key in told and not _KEY.match(told[key]):
            yield spot.below(key), f"{told[key] or 'nothing'} is not a valid label key", "write the label of a level"
    if _FREE in told and told[_FREE] not in _BOOLEANS:
        yield spot.below(_FREE), f"{told[_FREE]} is neither true nor false", 'write "true"'


def _slices(spot: Spot, pods: int | None) -> Iterator[Refusal]:
    told = pairs(spot)
    size = told.get(_SLICE_SIZE)
    if (size is None) != (_SLICE not in told):
        here, missing = (_SLICE, _SLICE_SIZE) if size is None else (_SLICE_SIZE, _SLICE)
        yield spot.below(here), f"a slice needs {missing} too", "set both or none"
    if size is None:
        return
    if not digits(size):
        yield spot.below(_SLICE_SIZE), f"{size} is not a number of pods", "write a number above 0"
    elif pods is not None and (digits(size) or 0) > pods:
        yield (
            spot.below(_SLICE_SIZE),
            f"a slice of {size} pods is larger than the {pods} of the pod set",
            "make it smaller",
        )


def _group(spot: Spot) -> Iterator[Refusal]:
    told = pairs(spot)
    name = told.get(_GROUP)
    if name is None:
        return
    if name.isascii() and name.isdigit():
        yield spot.below(_GROUP), f"group {name} is a number", "give the group a name"
    if _SLICE in told or _SLICE_SIZE in told:
        yield spot.below(_GROUP), "a group of pod sets takes no slices", "leave one of them out"
    if _REQUIRED not in told and _PREFERRED not in told:
        yield spot.below(_GROUP), "a group of pod sets must ask for a topology", f"set {_REQUIRED} or {_PREFERRED}"


def _known_levels(workload: Workload) -> list[str] | None:
    """The levels of the job's queue, the widest first; None where not all of its flavors and topologies are known."""
    found = flavors(workload)
    if found is None:
        return None
    known = {item.name: item for item in workload.of_cluster("Topology") if item.group == GROUP}
    names = {word(flavor.at("spec", "topologyName")) for flavor in found} - {""}
    if not names <= known.keys():
        return None
    return [
        word(level.below("nodeLabel")) for name in sorted(names) for level, _ in items(known[name].at("spec", "levels"))
    ]
