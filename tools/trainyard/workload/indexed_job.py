"""batch/v1 Job, Indexed or not, as Kubernetes' own controller runs it."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.made_names import MadeName
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, mapping
from trainyard.workload.pods import numbered, object_name, pod_set

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The one pod set of a Job, of the role `job`."""
    spec = mapping(job.data.get("spec"))
    name = object_name(job)
    indexed = spec.get("completionMode") == "Indexed"
    pods = jobs_pods(spec, job.at("spec"))
    alone = pods.value == 1

    def inject(_: int, __: str) -> Sequence[InjectedVariable]:
        value = "0" if alone else None
        return (
            (InjectedVariable(INDEX_VARIABLE, value, job.at("spec", "completionMode"), yields=True),) if indexed else ()
        )

    return (
        pod_set(
            role="job",
            count=pods,
            template=mapping(spec.get("template")),
            spot=job.at("spec", "template"),
            objects=objects,
            hostnames=numbered(name, pods.value) if indexed else (),
            labels=names_of_job(name),
            annotations=({INDEX_ANNOTATION: "0"} if indexed and alone else {}) | failures_counted(spec),
            inject=inject,
            inject_init=inject,
        ),
    )


def names(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The host name of the last pod, which the API server refuses where it is too long."""
    return tuple(
        MadeName("the last pod", each.hostnames[-1], job.at("metadata", "name")) for each in pod_sets if each.hostnames
    )


def jobs_pods(spec: Mapping[Any, Any], spot: Spot) -> Setting:
    """How many pods of a Job with this spec succeed in all: `completions`, else `parallelism`, else one."""
    for field in ("completions", "parallelism"):
        if spec.get(field) is not None:
            return Setting(count(spec[field]), spot.below(field))
    return Setting(1, spot, implied=True)


def failures_counted(spec: Mapping[Any, Any]) -> dict[str, str]:
    """The annotation in which a Job with a limit for each index counts the failures of a pod's index, at first."""
    return {FAILURES_ANNOTATION: "0"} if spec.get("backoffLimitPerIndex") is not None else {}


def names_of_job(name: str) -> dict[str, str]:
    """Labels of a Job's pods that hold its name; none where that is not known."""
    return {"batch.kubernetes.io/job-name": name, "job-name": name} if name else {}
