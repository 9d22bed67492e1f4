"""The kinds of training job, each with the module that knows its controller. A new kind is one file and one entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainyard.objects.objects import Object
from trainyard.workload import (
    indexed_job,
    jobset,
    kubeflow_v1,
    mpijob,
    pytorchjob,
    ray,
    replicas,
    templates,
    tfjob,
    trainjob,
    volcano,
)
from trainyard.workload.made import MadeObject
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Workload


def _nothing(_: Object, __: Sequence[object]) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """How one kind of job is run."""

    versions: frozenset[str]
    pod_sets: Callable[[Object, Sequence[Object]], tuple[PodSet, ...]]
    """The pods that the controller makes for an object, given everything that is known beside it."""
    services: Callable[[Object, Sequence[PodSet]], tuple[MadeService, ...]] = _nothing
    """The Services that the controller makes for it."""
    names: Callable[[Object, Sequence[PodSet]], tuple[MadeName, ...]] = _nothing
    """The names that may become too long."""
    made: Callable[[Object, Sequence[Object]], tuple[MadeObject, ...]] = _nothing
    """Other objects that the controller makes and that pods name, given everything that is known beside it."""


_RAY = frozenset({"v1", "v1alpha1"})
_OF_TEMPLATES = {
    ("", "Pod"): "v1",
    ("apps", "DaemonSet"): "v1",
    ("apps", "Deployment"): "v1",
    ("apps", "ReplicaSet"): "v1",
    ("apps", "StatefulSet"): "v1",
    ("batch", "CronJob"): "v1",
}
_OPERATED = Adapter(frozenset({"v1"}), kubeflow_v1.pod_sets, replicas.a_service_a_pod, replicas.names)
ADAPTERS: Mapping[tuple[str, str], Adapter] = {
    **{kind: Adapter(frozenset({version}), templates.pods) for kind, version in _OF_TEMPLATES.items()},
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Adapter(frozenset({"v1"}), templates.groups),
    ("batch.volcano.sh", "Job"): Adapter(
        frozenset({"v1alpha1"}), volcano.pod_sets, volcano.services, volcano.names, volcano.made
    ),
    ("batch", "Job"): Adapter(frozenset({"v1"}), indexed_job.pod_sets, names=indexed_job.names),
    ("jobset.x-k8s.io", "JobSet"): Adapter(
        frozenset({"v1alpha2"}), jobset.pod_sets, jobset.services, jobset.names, jobset.made
    ),
    ("kubeflow.org", "PyTorchJob"): Adapter(
        frozenset({"v1"}), pytorchjob.pod_sets, pytorchjob.services, replicas.names
    ),
    ("kubeflow.org", "TFJob"): Adapter(frozenset({"v1"}), tfjob.pod_sets, tfjob.services, replicas.names),
    ("kubeflow.org", "MPIJob"): Adapter(
        frozenset({"v2beta1"}), mpijob.pod_sets, mpijob.services, replicas.names, mpijob.made
    ),
    ("kubeflow.org", "JAXJob"): _OPERATED,
    ("kubeflow.org", "PaddleJob"): _OPERATED,
    ("kubeflow.org", "XGBoostJob"): _OPERATED,
    ("ray.io", "RayCluster"): Adapter(_RAY, ray.cluster_pods, ray.cluster_services, ray.cluster_names),
    ("ray.io", "RayJob"): Adapter(_RAY, ray.job_pods, ray.job_services, ray.job_names),
    ("ray.io", "RayService"): Adapter(_RAY, ray.service_pods, ray.service_services),
    ("trainer.kubeflow.org", "TrainJob"): Adapter(
        frozenset({"v1alpha1"}), trainjob.pod_sets, trainjob.services, trainjob.names, trainjob.made
    ),
}
_V1_MPI_JOB = Adapter(frozenset({"v1"}), kubeflow_v1.pod_sets, names=replicas.names, made=kubeflow_v1.made)
"""That of the training operator, whose kind has the name and group of mpi-operator's."""
PLAIN = frozenset((*(kind for _, kind in _OF_TEMPLATES), "LeaderWorkerSet"))
"""Kinds that count as a job only where their pods train."""


def adapter(item: Object) -> Adapter | None:
    """The adapter for an object, or None where it is not a training job of a known kind and version."""
    found = _V1_MPI_JOB if (item.api_version, item.kind) == ("kubeflow.org/v1", "MPIJob") else None
    found = found or ADAPTERS.get((item.group, item.kind))
    if found is None or item.api_version.rpartition("/")[2] not in found.versions:
        return None
    return found


def made_services(workload: Workload) -> tuple[MadeService, ...]:
    """The Services that the job's controller makes, which no manifest shows."""
    found = adapter(workload.object)
    return () if found is None else found.services(workload.object, workload.pod_sets)


def made_names(workload: Workload) -> tuple[MadeName, ...]:
    """The names that the job's controller makes from its name."""
    found = adapter(workload.object)
    return () if found is None else found.names(workload.object, workload.pod_sets)
