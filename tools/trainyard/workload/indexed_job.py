"""batch/v1 Job, Indexed or not, as Kubernetes' own controller runs it."""

from collections.abc import Sequence

from trainyard.objects import Object
from trainyard.workload.environment import Injected
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, mapping
from trainyard.workload.pods import numbered, object_name, pod_set

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The one pod set of a Job, of the role `job`."""
    spec = mapping(job.data.get("spec"))
    name = object_name(job)
    indexed = spec.get("completionMode") == "Indexed"
    pods = _count(job)
    spot = job.at("spec", "template")

    def inject(_: int, __: str) -> Sequence[Injected]:
        value = "0" if pods.value == 1 else None
        return (Injected(INDEX_VARIABLE, value, job.at("spec", "completionMode"), yields=True),) if indexed else ()

    return (
        pod_set(
            role="job",
            count=pods,
            template=mapping(spec.get("template")),
            spot=spot,
            objects=objects,
            hostnames=numbered(name, pods.value) if indexed else (),
            labels={"batch.kubernetes.io/job-name": name, "job-name": name} if name else {},
            inject=inject,
            inject_init=inject,
        ),
    )


def _count(job: Object) -> Setting:
    """How many pods succeed in all: `completions`, else `parallelism`, else one."""
    spec = mapping(job.data.get("spec"))
    for field in ("completions", "parallelism"):
        if spec.get(field) is not None:
            return Setting(count(spec[field]), job.at("spec", field))
    return Setting(1, job.at("spec"), implied=True)
