"""What the plugins of Kubeflow Trainer v2.3.0 tell the pods of a TrainJob: torch, MPI, JAX and XGBoost."""

from collections.abc import Iterator
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.jobset import Inject
from trainyard.workload.made import MadeObject, Part, made_object, part_of, upsert
from trainyard.workload.model import Setting
from trainyard.workload.plain import count, entries, mapping, sequence, text
from trainyard.workload.pods import indices
from trainyard.workload.trainer_runtime import LAUNCHER, NODE, TRAINER, ReplicatedJob, RuntimeJob

PORT = 29500
HOSTFILE = "/etc/mpi/hostfile"
_TUNE = ["tune", "run"]
_KEY_VOLUME, _HOSTFILE_VOLUME = "mpi-ssh-auth", "mpi-hostfile"


def enforce(made: RuntimeJob) -> Inject | None:
    """Set the counts that the runtime's policy decides, and say what it adds to each container's environment.

    None for a policy that is not followed here.
    """
    if made.policy.get("flux") is not None:
        return None
    if made.policy.get("mpi") is not None:
        return _mpi(made)
    trainer, nodes = made.of(ancestor=TRAINER), made.nodes()
    if trainer is None:
        return {}
    if nodes is not None:
        trainer.count = nodes
    if isinstance(made.policy.get("torch"), dict):
        return _torch(made, trainer)
    for policy, variables in (("jax", _jax), ("xgboost", _xgboost)):
        if isinstance(made.policy.get(policy), dict) and made.trainer is not None:
            _open_port(trainer)
            return {(trainer.name, NODE): tuple(variables(made, trainer))}
    return {}


def made_objects(made: RuntimeJob) -> tuple[MadeObject, ...]:
    """The hostfile and the key that the MPI plugin makes; nothing for other policies."""
    if made.policy.get("mpi") is None:
        return ()
    spot = made.runtime.at("spec", "mlPolicy", "mpi")
    lines = [
        f"{made.name}-{each.name}-{job}-{pod}.{_subdomain(made)} slots={_slots(made).value}\n"
        for each in made.replicated
        if each.name == NODE or (made.launcher_is_node and each.name == LAUNCHER)
        for job, pod in indices(_replicas(each), each.count.value or 0)
    ]
    found = []
    for kind, suffix, data in (
        ("ConfigMap", "mpi-hostfile", {"hostfile": "".join(lines)}),
        ("Secret", _KEY_VOLUME, {}),
    ):
        metadata = {"name": f"{made.name}-{suffix}", "namespace": made.job.namespace}
        whole = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}
        found.append(made_object(part_of(whole, spot), made.job))
    return tuple(found)


def _torch(made: RuntimeJob, trainer: ReplicatedJob) -> Inject:
    tunes = sequence(mapping(made.trainer).get("command")) == _TUNE
    nodes = (
        InjectedVariable("PET_NNODES", _text(trainer.count.value), trainer.count.spot),
        InjectedVariable("PET_NPROC_PER_NODE", *_ranks(made)),
        InjectedVariable("PET_NODE_RANK", _first(trainer), trainer.part.spot),
    )
    spot = made.job.at("metadata", "name")
    master = (
        InjectedVariable("PET_MASTER_ADDR", _first_host(made), spot),
        InjectedVariable("PET_MASTER_PORT", str(PORT), made.runtime.at("spec", "mlPolicy", "torch")),
    )
    found: dict[tuple[str, str], tuple[InjectedVariable, ...]] = {}
    injection = mapping(mapping(made.policy["torch"]).get("envInjection"))
    for _, target in entries(injection.get("targets")):
        for name in sequence(target.get("containerNames")):
            found[text(target.get("jobName")), text(name)] = nodes + master
    if made.trainer is not None:
        found[trainer.name, NODE] = nodes if tunes else nodes + master
        _open_port(trainer)
    return found


def _ranks(made: RuntimeJob) -> tuple[str | None, Spot]:
    """Ranks of a node, as torchrun is told: the TrainJob's number, else auto with GPUs, else the number of CPUs."""
    spot = made.at("numProcPerNode")
    written = mapping(made.trainer).get("numProcPerNode")
    if written is not None:
        return _text(count(written)), spot
    return ("auto" if made.gpus() else str(max(1, made.cpus()))), spot


def _jax(made: RuntimeJob, trainer: ReplicatedJob) -> Iterator[InjectedVariable]:
    """Variables of JAX, which the trainer's own override."""
    own = [variable.get("name") for _, variable in entries(mapping(made.trainer).get("env"))]
    for name, value, spot in (
        ("JAX_NUM_PROCESSES", _text(trainer.count.value), trainer.count.spot),
        ("JAX_PROCESS_ID", _first(trainer), trainer.part.spot),
        ("JAX_COORDINATOR_ADDRESS", f"{_first_host(made)}:{PORT}", made.job.at("metadata", "name")),
    ):
        if name not in own:
            yield InjectedVariable(name, value, spot)


def _xgboost(made: RuntimeJob, trainer: ReplicatedJob) -> Iterator[InjectedVariable]:
    workers = None if trainer.count.value is None else trainer.count.value * max(1, made.gpus())
    yield InjectedVariable("DMLC_TRACKER_URI", _first_host(made), made.job.at("metadata", "name"))
    yield InjectedVariable("DMLC_TRACKER_PORT", str(PORT), made.runtime.at("spec", "mlPolicy", "xgboost"))
    yield InjectedVariable("DMLC_TASK_ID", _first(trainer), trainer.part.spot)
    yield InjectedVariable("DMLC_NUM_WORKER", _text(workers), trainer.count.spot)


def _mpi(made: RuntimeJob) -> Inject | None:
    policy, spot = mapping(made.policy.get("mpi")), made.runtime.at("spec", "mlPolicy", "mpi")
    if (text(policy.get("mpiImplementation")) or "OpenMPI") != "OpenMPI":
        return None
    node, nodes = made.of(name=NODE), made.nodes()
    trainer = made.of(ancestor=TRAINER)
    if node is not None and nodes is not None:
        taken = 1 if made.launcher_is_node else 0
        number = None if nodes.value is None else max(nodes.value - taken, 1) if taken else nodes.value
        node.count = Setting(number, nodes.spot)
    found: dict[tuple[str, str], tuple[InjectedVariable, ...]] = {}
    for each in made.replicated:
        if each.name not in (NODE, LAUNCHER):
            continue
        upsert(each.pod, "volumes", part_of(_key_volume(made.name), spot), "name")
        if each.name == LAUNCHER:
            upsert(each.pod, "volumes", part_of(_hostfile_volume(made.name), spot), "name")
        for container in each.containers(NODE):
            path = text(policy.get("sshAuthMountPath")) or "/root/.ssh"
            mount = {"name": _KEY_VOLUME, "mountPath": path}
            upsert(container, "volumeMounts", part_of(mount, spot.below("sshAuthMountPath")), "mountPath")
            if each.name == LAUNCHER:
                mount = {"name": _HOSTFILE_VOLUME, "mountPath": "/etc/mpi"}
                upsert(container, "volumeMounts", part_of(mount, spot), "mountPath")
                slots = _slots(made)
                found[each.name, NODE] = (
                    InjectedVariable("OMPI_MCA_orte_default_hostfile", HOSTFILE, spot),
                    InjectedVariable("OMPI_MCA_orte_keep_fqdn_hostnames", "true", spot),
                    InjectedVariable("OMPI_MCA_orte_set_default_slots", _text(slots.value), slots.spot),
                    InjectedVariable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10", spot),
                )
    return found if trainer is not None or node is not None else None


def _slots(made: RuntimeJob) -> Setting:
    """Slots of a node: the TrainJob's number, else the policy's, else the GPUs of a node where that says one."""
    written = mapping(made.trainer).get("numProcPerNode")
    if written is not None:
        return Setting(count(written), made.at("numProcPerNode"))
    policy = mapping(made.policy.get("mpi"))
    spot = made.runtime.at("spec", "mlPolicy", "mpi", "numProcPerNode")
    number = 1 if policy.get("numProcPerNode") is None else count(policy["numProcPerNode"])
    if number == 1 and (gpus := made.gpus()) > 1:
        return Setting(gpus, spot, implied=True)
    return Setting(number, spot, implied=policy.get("numProcPerNode") is None)


def _key_volume(name: str) -> dict[str, Any]:
    public = {"key": "ssh-publickey", "mode": 0o644}
    items = [
        {"key": "ssh-privatekey", "path": "id_rsa", "mode": 0o640},
        {**public, "path": "id_rsa.pub"},
        {**public, "path": "authorized_keys"},
    ]
    return {
        "name": _KEY_VOLUME,
        "secret": {"secretName": f"{name}-mpi-ssh-auth", "defaultMode": 0o400, "items": items},
    }


def _hostfile_volume(name: str) -> dict[str, Any]:
    items = [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
    return {"name": _HOSTFILE_VOLUME, "configMap": {"name": f"{name}-mpi-hostfile", "items": items}}


def _open_port(trainer: ReplicatedJob) -> None:
    for container in trainer.containers(NODE):
        upsert(container, "ports", part_of({"containerPort": PORT}, container.spot), "containerPort")


def _first_host(made: RuntimeJob) -> str:
    """The host that Trainer tells the ranks to meet at, whatever the replicatedJob and the subdomain are called."""
    return f"{made.name}-{NODE}-0-0.{made.name}"


def _first(trainer: ReplicatedJob) -> str | None:
    return "0" if trainer.count.value == 1 else None


def _subdomain(made: RuntimeJob) -> str:
    named = made.tree.at("spec", "network", "subdomain")
    return text(named.value) if named is not None and text(named.value) else made.name


def _replicas(each: ReplicatedJob) -> int:
    found: Part | None = each.part.child("replicas")
    return (count(found.value) or 0) if found is not None else 1


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
