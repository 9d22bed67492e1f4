"""Words that an API knows and its schema does not list: OPR006."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.jobspecs import job_specs
from trainyard.rules.common.once import once
from trainyard.rules.common.operator_kinds import operator_kind, replicas
from trainyard.rules.common.parts import either, items, word
from trainyard.rules.common.places import value_at
from trainyard.rules.ray.clusters import cluster_spec
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_POD: Mapping[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "Never", "OnFailure"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
}
_CONTAINER: Mapping[str, tuple[str, ...]] = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
}
_TOLERATION: Mapping[str, tuple[str, ...]] = {
    "operator": ("Equal", "Exists", "Gt", "Lt"),
    "effect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
}
_JOB: Mapping[str, tuple[str, ...]] = {
    "completionMode": ("Indexed", "NonIndexed"),
    "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
}
_CLEAN_PODS = ("All", "None", "Running")
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_MANAGERS = {"kubeflow.org/v1": "kubeflow.org/training-operator", "kubeflow.org/v2beta1": "kubeflow.org/mpi-operator"}
"""Who may be told in runPolicy.managedBy to run a job, beside MultiKueue."""
_OF_KINDS: Mapping[str, Mapping[tuple[str, ...], tuple[str, ...]]] = {
    "RayJob": {("submissionMode",): ("HTTPMode", "InteractiveMode", "K8sJobMode", "SidecarMode")},
    "MPIJob": {("launcherCreationPolicy",): ("AtStartup", "WaitForWorkersReady")},
    "TFJob": {("successPolicy",): ("AllWorkers",)},
    "TrainJob": {
        ("runtimeRef", "apiGroup"): ("trainer.kubeflow.org",),
        ("runtimeRef", "kind"): ("ClusterTrainingRuntime", "TrainingRuntime"),
    },
}
_SERVICES = ("ClusterIP", "LoadBalancer", "NodePort")


@dataclass(frozen=True, slots=True)
class _Choice:
    """A field, and the words that it may hold."""

    spot: Spot
    words: tuple[str, ...]


@rule("OPR006", "word-unknown", Severity.ERROR, needs=Workload, fix="safe")
@once
def word_unknown(workload: Workload) -> Iterator[Problem]:
    """A field that takes one of a few words holds another.

    restartPolicy, cleanPodPolicy, submissionMode, managedBy and their like are plain text in the schemas. The API
    server or the operator refuses other words; some operators run the job as if nothing was said, and others never run
    it.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, imagePullPolicy: ifNotPresent}]}}}
    Bad:
        # on: pytorchjob
        spec: {runPolicy: {managedBy: training-operator}}
    Bad:
        # on: jobset
        spec: {managedBy: multikueue}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, imagePullPolicy: IfNotPresent}]}}}
    Near miss:
        # on: pytorchjob
        spec: {runPolicy: {cleanPodPolicy: None}, pytorchReplicaSpecs: {Worker: {restartPolicy: ExitCode}}}

    Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
    """
    spots = (*_of_pods(workload), *_of_job(workload.object))
    for choice in spots:
        said = word(choice.spot)
        if said and said not in choice.words:
            near = next((each for each in choice.words if each.lower() == said.lower()), "")
            help = f"write {near}" if near else f"use {either(choice.words)}"
            fix = put(choice.spot, near) if near else None
            yield Problem(f"{choice.spot.path[-1]} knows no {said}", choice.spot, help=help, fix=fix)


def _of_pods(workload: Workload) -> Iterator[_Choice]:
    own_job = {job.pod.path for job in job_specs(workload.object)}
    for pod_set in workload.pod_sets:
        pod = pod_set.template.below("spec")
        for field, known in _POD.items():
            if field != "restartPolicy" or pod.path not in own_job:
                yield _Choice(pod.below(field), known)
        for kind in ("containers", "initContainers"):
            for container, _ in items(pod.below(kind)):
                yield from _choices(container, _CONTAINER)
        for toleration, _ in items(pod.below("tolerations")):
            yield from _choices(toleration, _TOLERATION)


def _of_job(item: Object) -> Iterator[_Choice]:
    for job in job_specs(item):
        yield from _choices(job.spot, _JOB)
    kind = operator_kind(item)
    if kind is not None:
        policy = item.at("spec", "runPolicy")
        yield _Choice(policy.below("cleanPodPolicy"), _CLEAN_PODS)
        yield _Choice(policy.below("managedBy"), (_MANAGERS[item.api_version], _MULTIKUEUE))
        for replica in replicas(item):
            yield _Choice(replica.spot.below("restartPolicy"), kind.restart_policies)
    for path, known in _OF_KINDS.get(item.kind, {}).items():
        if isinstance(value_at(item.at("spec", *path)), str):
            yield _Choice(item.at("spec", *path), known)
    if item.kind == "JobSet" and "/" not in word(item.at("spec", "managedBy")):  # any other may be somebody's own
        yield _Choice(item.at("spec", "managedBy"), ("jobset.sigs.k8s.io/jobset-controller", _MULTIKUEUE))
    cluster = cluster_spec(item)
    if cluster is not None:
        yield _Choice(cluster.below("headGroupSpec", "serviceType"), _SERVICES)


def _choices(spot: Spot, fields: Mapping[str, tuple[str, ...]]) -> Iterator[_Choice]:
    return (_Choice(spot.below(field), known) for field, known in fields.items())
