"""What the training operator's jobs (PyTorchJob, TFJob) have in common: replica types, names, labels, Services."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, entries, mapping, text
from trainyard.workload.pods import numbered, object_name

JOB_NAME = "training.kubeflow.org/job-name"
JOB_ROLE = "training.kubeflow.org/job-role"
OPERATOR = "training.kubeflow.org/operator-name"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
REPLICA_TYPE = "training.kubeflow.org/replica-type"


@dataclass(frozen=True, slots=True)
class Replicas:
    """One replica type of a job."""

    role: str
    """Its name in lower case: master, worker, chief, ps, evaluator, launcher."""
    data: Mapping[Any, Any]
    spot: Spot
    count: Setting

    @property
    def template(self) -> Mapping[Any, Any]:
        """The pod template."""
        return mapping(self.data.get("template"))

    def restart_policy(self, default: str) -> str:
        """The restart policy of the pods; the template's own is overwritten."""
        policy = text(self.data.get("restartPolicy")) or default
        return "Never" if policy == "ExitCode" else policy


def replicas(job: Object, field: str, types: Iterable[str], defaults: Mapping[str, int]) -> tuple[Replicas, ...]:
    """The replica types that the job has, in the order of `types`, found whatever their case as the operator does.

    `defaults` are the counts of the types that say none; one where a type is not in it.
    """
    given = mapping(mapping(job.data.get("spec")).get(field))
    found = []
    for kind in types:
        key = next((key for key in given if isinstance(key, str) and key.lower() == kind.lower()), None)
        if key is None or not isinstance(given[key], dict):
            continue
        spot = job.at("spec", field, key)
        written = given[key].get("replicas")
        number = (
            Setting(defaults.get(kind, 1), spot, implied=True)
            if written is None
            else Setting(count(written), spot.below("replicas"))
        )
        found.append(Replicas(kind.lower(), given[key], spot, number))
    return tuple(found)


def total(parts: Iterable[Replicas]) -> int | None:
    """All pods, or None where a count is not known."""
    counts = [part.count.value for part in parts]
    return None if None in counts else sum(counts)


def pod_names(job: Object, role: str, number: Setting) -> tuple[str, ...]:
    """`{job}-{role}-{index}` for each pod, which is the name of the pod, of its host and of its Service."""
    name = object_name(job)
    return numbered(f"{name}-{role}", number.value) if name else ()


def names(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The name of the last pod of each role, which is that of its host and of its Service: nobody checks it before."""
    spot = job.at("metadata", "name")
    return tuple(MadeName(f"the last {each.role} pod", each.hostnames[-1], spot) for each in pod_sets if each.hostnames)


def labels(job: Object, controller: str, role: str, number: Setting, *, leads: bool) -> dict[str, str]:
    """Labels that the operator gives to every pod of a role; `leads` where all of them have the role of a master."""
    name = object_name(job)
    found = {OPERATOR: controller, REPLICA_TYPE: role}
    if name:
        found[JOB_NAME] = name
    if number.value == 1:
        found[REPLICA_INDEX] = "0"
    if leads:
        found[JOB_ROLE] = "master"
    return found


def named_port(part: Replicas, container: str, name: str, default: int) -> Setting:
    """The port of this name in the container of this name; the operator adds it where it is missing."""
    for index, item in entries(mapping(part.template.get("spec")).get("containers")):
        if item.get("name") != container:
            continue
        for place, port in entries(item.get("ports")):
            if port.get("name") == name:
                spot = part.spot.below("template", "spec", "containers", index, "ports", place, "containerPort")
                return Setting(count(port.get("containerPort")), spot)
    return Setting(default, part.spot.below("template", "spec", "containers"), implied=True)


def a_service_a_pod(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """One headless Service for each pod, with the pod's name; it does not publish addresses that are not ready."""
    return tuple(
        MadeService(name, ((pod_set.role, index),), publishes_unready=False)
        for pod_set in pod_sets
        for index, name in enumerate(pod_names(job, pod_set.role, pod_set.count))
    )
