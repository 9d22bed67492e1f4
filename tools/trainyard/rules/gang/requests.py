"""Rules on gang scheduling: GNG001 and up."""

from collections.abc import Iterator, Sequence

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.once import once
from trainyard.rules.common.starts import meets_others, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import mapping
from trainyard.yaml.fieldpath import lookup

_COSCHEDULING = "scheduling.x-k8s.io/pod-group"
_VOLCANO = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_UNREAD = ("scheduling.k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "scheduling.k8s.io/podgroup")
_DEFAULT_SCHEDULERS = ("", "default-scheduler")
_POD_GROUPS = ("scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.k8s.io")


@rule("GNG001", "gang-nobody-reads", Severity.WARNING, needs=Workload)
@once
def gang_nobody_reads(workload: Workload) -> Iterator[Problem]:
    """Pods name a pod group that no scheduler reads.

    Coscheduling reads the label scheduling.x-k8s.io/pod-group, Volcano the annotation scheduling.k8s.io/group-name,
    each only for pods with its schedulerName. Under any other key, or with the default scheduler, pods start one by
    one: two jobs that each get half of their nodes wait for each other, and hold the GPUs.

    Bad:
        kind: Job
        spec: {template: {metadata: {labels: {scheduling.k8s.io/pod-group: llama-sft}}}}
    Good:
        kind: Job
        spec:
          template:
            metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}
            spec: {schedulerName: scheduler-plugins-scheduler}
    Near miss:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: llama-sft, namespace: research}
        spec: {minMember: 4}
        ---
        kind: Job
        spec: {template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}}}

    Source: https://github.com/kubernetes-sigs/scheduler-plugins/blob/master/pkg/coscheduling/README.md
    """
    groups = {obj.group for obj in workload.of_kind("PodGroup")}
    places = [(workload.object.at("metadata"), "")]
    places += [(pod_set.template.below("metadata"), _scheduler(pod_set)) for pod_set in workload.pod_sets]
    for spot, scheduler in reversed(places):
        is_pod = bool(spot.path != ("metadata",))
        for kind in ("labels", "annotations"):
            for key in mapping(_value(spot.below(kind))):
                reason = _unread(key, kind, scheduler, groups, is_pod)
                if reason:
                    yield Problem(
                        f"{kind.removesuffix('s')} {key} {reason}: the pods start one by one",
                        spot.below(kind, key),
                        help="use the key and the schedulerName of the gang scheduler that the cluster runs",
                    )


@rule("GNG002", "gang-size", Severity.ERROR, needs=Workload, fix="safe")
@once
def gang_size(workload: Workload) -> Iterator[Problem]:
    """A pod group's size is not the number of pods of its job.

    With more members than pods the gang never forms and the job waits for ever. With fewer, some pods start and wait
    for ranks that have no node, holding their GPUs. A Volcano job whose pods do not wait for each other may start with
    fewer. The pods that count are those that name the group: a launcher or a Ray head, which has no rank, may stay out.

    Bad:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: llama-sft, namespace: research}
        spec: {minMember: 8}
        ---
        kind: Job
        spec: {template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}}}
    Good:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: llama-sft, namespace: research}
        spec: {minMember: 4}
        ---
        kind: Job
        spec: {template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}}}
    Near miss:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: another-job, namespace: research}
        spec: {minMember: 8}
        ---
        # whole
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: PodGroup
        metadata: {name: bert, namespace: research}
        spec: {minMember: 4}
        ---
        # whole
        apiVersion: ray.io/v1
        kind: RayJob
        metadata: {name: bert, namespace: research}
        spec:
          rayClusterSpec:
            headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}
            workerGroupSpecs:
            - groupName: node
              replicas: 4
              template:
                metadata: {annotations: {scheduling.k8s.io/group-name: bert}}
                spec: {schedulerName: volcano, containers: [{name: ray}]}

    Source: https://github.com/kubernetes-sigs/scheduler-plugins/blob/master/pkg/coscheduling/README.md
    """
    if _is_elastic(workload):
        return
    by_choice = workload.object.group == "batch.volcano.sh" and not any(meets_others(s) for s in starts(workload))
    for members, where, pod_sets in _gangs(workload):
        pods, workers = _pods(pod_sets), _pods([each for each in pod_sets if each.role != "launcher"])
        if pods is not None and members not in (pods, workers) and not (by_choice and members < pods):
            consequence = "the gang never forms" if members > pods else "some pods may start without the rest"
            having = "the job has" if len(pod_sets) == len(workload.pod_sets) else "those that name it are"
            yield Problem(
                f"the pod group waits for {members} pods, but {having} {pods}: {consequence}",
                where,
                related=tuple(pod_set.count.spot for pod_set in pod_sets),
                help=f"set it to {pods}",
                fix=put(where, pods),
            )


def _unread(key: str, kind: str, scheduler: str, groups: set[str], is_pod: bool) -> str:
    """Why no scheduler reads this key; empty where one may."""
    if key in _UNREAD:
        return "is read by no scheduler"
    if not is_pod:
        return ""
    default = scheduler in _DEFAULT_SCHEDULERS
    if key == _COSCHEDULING and kind == "labels":
        if default and "scheduling.x-k8s.io" not in groups:
            return "is not read by the default scheduler"
        return "is not read by Volcano" if scheduler == "volcano" else ""
    if key in _VOLCANO and kind == "labels":
        return "is read as an annotation only"
    if key in _VOLCANO and default:
        return "is not read by the default scheduler"
    return ""


def _scheduler(pod_set: PodSet) -> str:
    name = pod_set.spec.get("schedulerName")
    return name if isinstance(name, str) else ""


def _gangs(workload: Workload) -> Iterator[tuple[int, Spot, Sequence[PodSet]]]:
    """How many pods each gang waits for, where that is said, and which pods are its members.

    Of a PodGroup those that name it; where the job itself says it, all.
    """
    for obj in workload.of_kind("PodGroup"):
        members = [pod_set for pod_set in workload.pod_sets if obj.name in _groups_of(pod_set)]
        if obj.group in _POD_GROUPS and members:
            yield from ((*found, members) for found in _size(obj, "spec", "minMember"))
    own: list[tuple[str, ...]] = [("spec", "runPolicy", "schedulingPolicy", "minAvailable")]
    if workload.object.group == "batch.volcano.sh":
        own.append(("spec", "minAvailable"))
    for path in own:
        yield from ((*found, workload.pod_sets) for found in _size(workload.object, *path))


def _size(obj: Object, *path: str) -> Iterator[tuple[int, Spot]]:
    spot = obj.at(*path)
    value = _value(spot)
    if isinstance(value, int) and not isinstance(value, bool):
        yield value, spot


def _groups_of(pod_set: PodSet) -> set[str]:
    """The pod groups that the pods of a set name, under whatever key."""
    names: set[str] = set()
    for kind in ("labels", "annotations"):
        named = mapping(_value(pod_set.template.below("metadata", kind)))
        names |= {str(named[key]) for key in (_COSCHEDULING, *_VOLCANO, *_UNREAD) if key in named}
    return names


def _pods(pod_sets: Sequence[PodSet]) -> int | None:
    """Pods of several sets together; None where that is not known."""
    counts = [pod_set.count.value for pod_set in pod_sets]
    return None if None in counts else sum(counts)


def _is_elastic(workload: Workload) -> bool:
    if mapping(_value(workload.object.at("spec", "elasticPolicy"))):
        return True
    mains = (pod_set.main() for pod_set in workload.pod_sets)
    nodes = (main.launch.option("nnodes") for main in mains if main is not None and main.launch is not None)
    return any(option is not None and len(set(str(option.value).split(":"))) > 1 for option in nodes)


def _value(spot: Spot) -> object:
    try:
        return lookup(spot.object.data, spot.path)
    except KeyError:
        return None
