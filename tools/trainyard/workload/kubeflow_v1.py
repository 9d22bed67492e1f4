"""kubeflow.org/v1 MPIJob, XGBoostJob, PaddleJob and JAXJob, as the training operator runs them (read from v1.9.4)."""

from collections.abc import Mapping, Sequence

from trainyard.objects.objects import Object
from trainyard.workload import mpijob, replicas
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.made import MadeObject, made_object, part_of
from trainyard.workload.model import PodSet, Word
from trainyard.workload.plain import mapping, text
from trainyard.workload.pods import object_name, pod_set

_FIELDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "PaddleJob": ("paddleReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
}
_AGENT = "/etc/mpi/kubexec.sh"


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """A pod set a replica type. What the operator adds to the environment is not told but for MPI's."""
    field, types = _FIELDS[job.kind]
    parts = replicas.replicas(job, field, types, {})
    return tuple(
        pod_set(
            role=part.role,
            count=part.count,
            template=part.template,
            spot=part.spot.below("template"),
            objects=objects,
            pod_names=_names(job, part),
            labels=replicas.labels(
                job, f"{job.kind.lower()}-controller", part.role, part.count, leads=part.role in ("master", "launcher")
            ),
            overrides={"restartPolicy": part.restart_policy("Never")},
            inject=lambda index, _, part=part: _environment(job, part) if index == 0 else (),  # type: ignore[misc]
            default={0: (Word("sleep", part.spot), Word("365d", part.spot))} if _waits(job, part) else {},
        )
        for part in parts
    )


def made(job: Object, _: Sequence[Object]) -> tuple[MadeObject, ...]:
    """The ConfigMap of an MPIJob with its hostfile: the workers' pods, which the launcher enters by kubectl exec."""
    name = object_name(job)
    if job.kind != "MPIJob" or not name:
        return ()
    workers = replicas.replicas(job, "mpiReplicaSpecs", ("Worker",), {})
    hosts = [host for part in workers for host in replicas.pod_names(job, part.role, part.count)]
    lines = "".join(f"{host} slots={mpijob.slots(job).value}\n" for host in hosts)
    metadata = {"name": f"{name}-config", "namespace": job.namespace}
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": lines}}
    return (made_object(part_of(whole, job.at("spec")), job),)


def _names(job: Object, part: replicas.Replicas) -> tuple[str, ...]:
    if part.role == "launcher":
        name = object_name(job)
        return (f"{name}-launcher",) if name else ()
    return replicas.pod_names(job, part.role, part.count)


def _environment(job: Object, part: replicas.Replicas) -> tuple[InjectedVariable, ...]:
    if job.kind != "MPIJob" or part.role != "launcher":
        return ()
    implementation = text(mapping(job.data.get("spec")).get("mpiImplementation")) or "OpenMPI"
    if implementation != "OpenMPI":
        return ()
    return (
        InjectedVariable("OMPI_MCA_plm_rsh_agent", _AGENT, part.spot),
        InjectedVariable("OMPI_MCA_orte_default_hostfile", mpijob.HOSTFILE, part.spot),
    )


def _waits(job: Object, part: replicas.Replicas) -> bool:
    return job.kind == "MPIJob" and part.role == "worker"
