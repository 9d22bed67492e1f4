"""kubeflow.org/v2beta1 MPIJob, as mpi-operator runs it (read from v0.8.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object
from trainyard.workload import replicas
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.indexed_job import names_of_job
from trainyard.workload.made import MadeObject, made_object, part_of
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting, Word
from trainyard.workload.plain import count, mapping, sequence, text
from trainyard.workload.pods import numbered, object_name, places, pod_set
from trainyard.workload.replicas import JOB_NAME, JOB_ROLE, OPERATOR, REPLICA_INDEX, Replicas

HOSTFILE = "/etc/mpi/hostfile"
_ROOT_SSH = "/root/.ssh"
_RESTART = {"launcher": "OnFailure", "worker": "Never"}


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """Launcher and workers."""
    parts = replicas.replicas(job, "mpiReplicaSpecs", ("Launcher", "Worker"), {"Worker": 0})
    return tuple(_pod_set(job, objects, part) for part in parts)


def services(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """One headless Service for all pods."""
    name = object_name(job)
    pods = places((each.role, len(each.hostnames)) for each in pod_sets)
    return (MadeService(name, pods, publishes_unready=launcher_is_worker(job)),) if name else ()


def made(job: Object, _: Sequence[Object]) -> tuple[MadeObject, ...]:
    """The ConfigMap with the hostfile, and the Secret with the keys."""
    name, workers = object_name(job), replicas.replicas(job, "mpiReplicaSpecs", ("Worker",), {"Worker": 0})
    if not name:
        return ()
    hosts = [f"{name}-launcher"] if launcher_is_worker(job) else []
    hosts += [host for part in workers for host in numbered(f"{name}-worker", part.count.value)]
    implementation = text(mapping(job.data.get("spec")).get("mpiImplementation")) or "OpenMPI"
    form = "{} slots={}\n" if implementation == "OpenMPI" else "{}:{}\n"
    lines = "".join(form.format(f"{host}.{name}.{job.namespace}.svc", slots(job).value) for host in hosts)
    found = []
    for kind, suffix, data in (("ConfigMap", "config", {"hostfile": lines}), ("Secret", "ssh", {})):
        metadata = {"name": f"{name}-{suffix}", "namespace": job.namespace}
        whole = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}
        found.append(made_object(part_of(whole, job.at("spec")), job))
    return tuple(found)


def launcher_is_worker(job: Object) -> bool:
    """Whether the launcher runs ranks too."""
    return mapping(job.data.get("spec")).get("runLauncherAsWorker") is True


def slots(job: Object) -> Setting:
    """Ranks of a worker, which the hostfile gives to mpirun."""
    written = mapping(job.data.get("spec")).get("slotsPerWorker")
    spot = job.at("spec", "slotsPerWorker")
    return Setting(1, spot, implied=True) if written is None else Setting(count(written), spot)


def _pod_set(job: Object, objects: Sequence[Object], part: Replicas) -> PodSet:
    name = object_name(job)
    launches = part.role == "launcher"
    labels = {OPERATOR: "mpi-operator", JOB_ROLE: part.role}
    if name:
        labels[JOB_NAME] = name
    if launches:
        labels |= names_of_job(f"{name}-launcher" if name else "")
        if launcher_is_worker(job):
            labels[REPLICA_INDEX] = "0"
    overrides: dict[str, Any] = {"restartPolicy": part.restart_policy(_RESTART[part.role])}
    template = mapping(part.template.get("spec"))
    if template.get("hostNetwork") is True:
        overrides["dnsPolicy"] = "ClusterFirstWithHostNet"
    if not launches and name:
        own = mapping(template.get("dnsConfig"))
        searches = [*sequence(own.get("searches")), f"{name}.{job.namespace}.svc.cluster.local"]
        overrides["dnsConfig"] = {**own, "searches": searches}
    overrides |= _mounted(job, template, launches=launches)
    if launches:
        hostnames: tuple[str, ...] = (f"{name}-launcher",) if name else ()
    else:
        hostnames = numbered(f"{name}-worker", part.count.value) if name else ()
    sshd = part.spot.below("template", "spec", "containers", 0, "command")
    return pod_set(
        role=part.role,
        count=part.count,
        template=part.template,
        spot=part.spot.below("template"),
        objects=objects,
        hostnames=hostnames,
        subdomain=Setting(name, job.at("metadata", "name"), implied=True) if name else None,
        labels=labels,
        overrides=overrides,
        inject=lambda index, _: _environment(job, part) if index == 0 else (),
        default={} if launches else {0: (Word("/usr/sbin/sshd", sshd), Word("-De", sshd))},
    )


def _mounted(job: Object, spec: Mapping[Any, Any], *, launches: bool) -> dict[str, Any]:
    """Volumes with the keys, and the launcher's with the hostfile, mounted in the first container."""
    name, path = object_name(job), text(mapping(job.data.get("spec")).get("sshAuthMountPath")) or _ROOT_SSH
    if not name:
        return {}
    public = "ssh-publickey"
    keys = [("ssh-privatekey", "id_rsa"), (public, "id_rsa.pub"), (public, "authorized_keys")]
    secret: dict[str, Any] = {"secretName": f"{name}-ssh", "items": [{"key": key, "path": at} for key, at in keys]}
    if path == _ROOT_SSH:
        secret["defaultMode"] = 0o600
    added = [({"name": "ssh-auth", "secret": secret}, path)]
    if launches:
        files = [("hostfile", 0o444), ("discover_hosts.sh", 0o555)]
        items = [{"key": file, "path": file, "mode": mode} for file, mode in files]
        added.append(({"name": "mpi-job-config", "configMap": {"name": f"{name}-config", "items": items}}, "/etc/mpi"))
    found: dict[str, Any] = {"volumes": [*sequence(spec.get("volumes")), *(volume for volume, _ in added)]}
    containers = sequence(spec.get("containers"))
    if containers and isinstance(containers[0], dict):
        mounts = [{"name": volume["name"], "mountPath": at} for volume, at in added]
        first = {**containers[0], "volumeMounts": [*sequence(containers[0].get("volumeMounts")), *mounts]}
        found["containers"] = [first, *containers[1:]]
    return found


def _environment(job: Object, part: Replicas) -> tuple[InjectedVariable, ...]:
    """What the operator appends to the `env` of the first container."""
    spec = mapping(job.data.get("spec"))
    spot = job.at("spec", "mpiImplementation")
    added = [InjectedVariable("K_MPI_JOB_ROLE", part.role, part.spot)]
    if part.role == "worker":
        return tuple(added)
    implementation = text(spec.get("mpiImplementation")) or "OpenMPI"
    added += [InjectedVariable(name, value, spot) for name, value in _IMPLEMENTATIONS.get(implementation, {}).items()]
    ranks = slots(job)
    if implementation in _SLOTS:
        value = None if ranks.value is None else str(ranks.value)
        added.append(InjectedVariable(_SLOTS[implementation], value, ranks.spot))
    if not launcher_is_worker(job):
        place = job.at("spec", "runLauncherAsWorker")
        added += [
            InjectedVariable(name, "", place) for name in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
        ]
    return tuple(added)


_IMPLEMENTATIONS: Mapping[str, Mapping[str, str]] = {
    "OpenMPI": {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
    "MPICH": {
        "HYDRA_HOST_FILE": HOSTFILE,
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
}
_SLOTS = {"OpenMPI": "OMPI_MCA_orte_set_default_slots", "Intel": "I_MPI_PERHOST"}
