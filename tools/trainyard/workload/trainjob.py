"""trainer.kubeflow.org/v1alpha1 TrainJob, as Kubeflow Trainer runs it (read from v2.3.0): as the JobSet it makes."""

from collections.abc import Sequence

from trainyard.objects.objects import Object
from trainyard.workload import jobset, trainer_policies
from trainyard.workload.made import MadeObject, made_object
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet
from trainyard.workload.plain import mapping, text
from trainyard.workload.pods import object_name
from trainyard.workload.trainer_runtime import RuntimeJob, is_runtime

_DEFAULT_KIND = "ClusterTrainingRuntime"


def runtime_name(job: Object) -> tuple[str, str]:
    """Kind and name of the runtime that a TrainJob names; an empty name where it names none."""
    reference = mapping(mapping(job.data.get("spec")).get("runtimeRef"))
    return text(reference.get("kind")) or _DEFAULT_KIND, text(reference.get("name"))


def runtime(job: Object, objects: Sequence[Object]) -> Object | None:
    """The runtime that a TrainJob names, or None where it is not among the objects."""
    kind, name = runtime_name(job)
    for item in objects:
        found = item.kind == kind and item.name == name and is_runtime(item)
        if found and (kind == _DEFAULT_KIND or item.namespace == job.namespace):
            return item
    return None


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The pod sets of the JobSet; none where its runtime is not known, or does what is not followed here."""
    found = _followed(job, objects)
    if found is None:
        return ()
    made, inject = found
    made.finish()
    return jobset.pod_sets(made_object(made.tree, job), objects, inject)


def services(_: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """The Services of the JobSet."""
    return jobset.services(pod_sets[0].template.object, pod_sets) if pod_sets else ()


def names(_: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The names of the JobSet."""
    return jobset.names(pod_sets[0].template.object, pod_sets) if pod_sets else ()


def made(job: Object, objects: Sequence[Object]) -> tuple[MadeObject, ...]:
    """The hostfile and the key of an MPI runtime, and what the JobSet makes."""
    found = _followed(job, objects)
    if found is None:
        return ()
    return (*trainer_policies.made_objects(found[0]), *jobset.made(made_object(found[0].tree, job), objects))


def _followed(job: Object, objects: Sequence[Object]) -> tuple[RuntimeJob, jobset.Inject] | None:
    template = runtime(job, objects)
    if template is None or not object_name(job):
        return None
    made = RuntimeJob(job, template)
    inject = trainer_policies.enforce(made)
    return None if inject is None else (made, inject)
