"""Which pods a gang scheduler takes for a gang: GNG003 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import either, pairs, part
from trainyard.rules.common.starts import one_world
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import text

_COSCHEDULING = "scheduling.x-k8s.io/pod-group"
_VOLCANO = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_LEAST = "scheduling.volcano.sh/group-min-member"
_OWN_GANGS = ("batch.volcano.sh", "kubeflow.org", "ray.io")
"""Groups whose operators make the PodGroup of a job."""


@rule("GNG003", "gang-of-one", Severity.WARNING, needs=Workload)
def gang_of_one(workload: Workload) -> Iterator[Problem]:
    """Volcano schedules the pods of a job, and takes each of them for a gang of its own.

    For pods that name no group Volcano makes one of their owner, with one member at least: the pods start one by one,
    and two jobs that each get half of their nodes wait for each other. A PodGroup, or the least number of members as
    annotation of the job, makes them a gang.

    Bad:
        kind: Job
        spec: {template: {spec: {schedulerName: volcano}}}
    Good:
        kind: Job
        metadata: {annotations: {scheduling.volcano.sh/group-min-member: "4"}}
        spec: {template: {spec: {schedulerName: volcano}}}
    Near miss:
        kind: Job
        spec:
          template:
            metadata: {annotations: {scheduling.k8s.io/group-name: llama-sft}}
            spec: {schedulerName: volcano}

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/controllers/podgroup/pg_controller_handler.go
    """
    item = workload.object
    if item.group in _OWN_GANGS or _LEAST in pairs(item.at("metadata", "annotations")) or not one_world(workload):
        return
    for pod_set in workload.pod_sets:
        alone = pod_set.count.value in (0, 1)
        grouped = any(key in pod_set.annotations for key in (*_VOLCANO, _LEAST))
        if text(pod_set.spec.get("schedulerName")) == "volcano" and not grouped and not alone:
            yield Problem(
                "Volcano takes each pod for a gang of one: the pods start one by one",
                pod_set.template.below("spec", "schedulerName"),
                (pod_set.template.below("metadata", label=f"no {_VOLCANO[0]}"),),
                f"add a PodGroup, or the annotation {_LEAST} on the {item.kind}",
            )
            return


@rule("GNG004", "schedulers-differ", Severity.WARNING, needs=Workload)
def schedulers_differ(workload: Workload) -> Iterator[Problem]:
    """The pods of one job go to different schedulers.

    A gang is placed by one scheduler. Pods that another one places are not members of it, and both hand out the same
    GPUs without knowing of each other. Where only some of the pods have GPUs, those alone count.

    Bad:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {schedulerName: volcano}}}}}
    Good:
        # on: pytorchjob
        spec:
          pytorchReplicaSpecs:
            Master: {template: {spec: {schedulerName: volcano}}}
            Worker: {template: {spec: {schedulerName: volcano}}}
    Near miss:
        # on: rayjob
        spec:
          submitterPodTemplate: {spec: {containers: [{name: submitter}]}}
          rayClusterSpec: {workerGroupSpecs: [{groupName: gpu, template: {spec: {schedulerName: volcano}}}]}

    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/
    """
    if (workload.object.group, workload.object.kind) == ("kubeflow.org", "MPIJob"):
        return
    with_gpus = [pod_set for pod_set in workload.pod_sets if any(each.gpus for each in pod_set.containers)]
    sets = with_gpus or [pod_set for pod_set in workload.pod_sets if pod_set.role != "submitter"]
    named = {_scheduler(pod_set): pod_set for pod_set in reversed(sets)}
    if len(named) > 1:
        last = next(pod_set for pod_set in sets if _scheduler(pod_set) != _scheduler(sets[0]))
        yield Problem(
            f"the pods of one job go to {' and '.join(sorted(named))}",
            _written(last),
            (_written(sets[0]).saying(f"goes to {_scheduler(sets[0])}"),),
            "give all pods of the job the same schedulerName",
        )


@rule("GNG005", "pod-group-missing", Severity.ERROR, needs=Workload)
@once
def pod_group_missing(workload: Workload) -> Iterator[Problem]:
    """Pods name a PodGroup that is not there.

    Coscheduling and Volcano place no pod whose group they do not find: the job stays Pending. A PodGroup stands in the
    namespace of its pods.

    Bad:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: llama, namespace: research}
        spec: {minMember: 4}
        ---
        kind: Job
        spec:
          template:
            metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}
            spec: {schedulerName: scheduler-plugins-scheduler}
    Good:
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: llama-sft, namespace: research}
        spec: {minMember: 4}
        ---
        kind: Job
        spec:
          template:
            metadata: {labels: {scheduling.x-k8s.io/pod-group: llama-sft}}
            spec: {schedulerName: scheduler-plugins-scheduler}
    Near miss:
        # on: job
        spec:
          template:
            metadata: {labels: {scheduling.x-k8s.io/pod-group: made-by-hand}}
            spec: {schedulerName: scheduler-plugins-scheduler}

    Source: https://github.com/kubernetes-sigs/scheduler-plugins/blob/master/pkg/coscheduling/README.md
    """
    if workload.object.group not in ("batch", "jobset.x-k8s.io"):
        return
    for pod_set in workload.pod_sets:
        for spot, group, name in _groups(pod_set):
            names = sorted(item.name for item in workload.of_kind("PodGroup") if item.group == group)
            if name not in names and (names or workload.in_job_folder):
                help = f"name {either(names)}" if names else "add the PodGroup"
                yield Problem(f"there is no PodGroup {name}: its pods are never placed", spot, help=help)


def _groups(pod_set: PodSet) -> Iterator[tuple[Spot, str, str]]:
    """The pod groups that a template names: where, of which API group, and by what name."""
    metadata = pod_set.template.below("metadata")
    for field, key, group in (
        ("labels", _COSCHEDULING, "scheduling.x-k8s.io"),
        *(("annotations", key, "scheduling.volcano.sh") for key in _VOLCANO),
    ):
        name = pairs(metadata.below(field)).get(key)
        if name:
            yield metadata.below(field, key), group, name


def _scheduler(pod_set: PodSet) -> str:
    return text(pod_set.spec.get("schedulerName")) or "default-scheduler"


def _written(pod_set: PodSet) -> Spot:
    spec = pod_set.template.below("spec")
    return spec.below("schedulerName") if part(spec) else pod_set.template
