"""The kinds of training job, each with the module that knows its controller. A new kind is one file and one entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainyard.objects import Object
from trainyard.workload import indexed_job, jobset, mpijob, pytorchjob, ray, replicas, tfjob, trainjob, volcano
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


ADAPTERS: Mapping[tuple[str, str], Adapter] = {
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
    ("ray.io", "RayCluster"): Adapter(frozenset({"v1"}), ray.cluster_pods, ray.cluster_services, ray.cluster_names),
    ("ray.io", "RayJob"): Adapter(frozenset({"v1"}), ray.job_pods, ray.job_services, ray.job_names),
    ("trainer.kubeflow.org", "TrainJob"): Adapter(
        frozenset({"v1alpha1"}), trainjob.pod_sets, trainjob.services, trainjob.names, trainjob.made
    ),
}


def adapter(item: Object) -> Adapter | None:
    """The adapter for an object, or None where it is no training job of a known kind and version."""
    found = ADAPTERS.get((item.group, item.kind))
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
