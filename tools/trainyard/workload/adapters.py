"""The kinds of training job, each with the module that knows its controller. A new kind is one file and one entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainyard.objects import Object
from trainyard.workload import indexed_job, mpijob, pytorchjob, tfjob
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Workload


def _no_services(_: Object, __: Sequence[PodSet]) -> tuple[MadeService, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """How one kind of job is run."""

    versions: frozenset[str]
    pod_sets: Callable[[Object, Sequence[Object]], tuple[PodSet, ...]]
    """The pods that the controller makes for an object, given everything that is rendered beside it."""
    services: Callable[[Object, Sequence[PodSet]], tuple[MadeService, ...]] = _no_services
    """The Services that the controller makes for it."""


ADAPTERS: Mapping[tuple[str, str], Adapter] = {
    ("batch", "Job"): Adapter(frozenset({"v1"}), indexed_job.pod_sets),
    ("kubeflow.org", "PyTorchJob"): Adapter(frozenset({"v1"}), pytorchjob.pod_sets, pytorchjob.services),
    ("kubeflow.org", "TFJob"): Adapter(frozenset({"v1"}), tfjob.pod_sets, tfjob.services),
    ("kubeflow.org", "MPIJob"): Adapter(frozenset({"v2beta1"}), mpijob.pod_sets, mpijob.services),
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
