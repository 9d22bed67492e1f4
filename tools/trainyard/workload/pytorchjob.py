"""kubeflow.org/v1 PyTorchJob, as the training operator runs it (read from v1.9.4)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload import replicas
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, digits, entries, mapping, text
from trainyard.workload.pods import object_name, pod_set
from trainyard.workload.replicas import Replicas

CONTAINER = "pytorch"
PORT_NAME = "pytorchjob-port"
PORT = 23456

services = replicas.a_service_a_pod


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """Master and workers."""
    parts = replicas.replicas(job, "pytorchReplicaSpecs", ("Master", "Worker"), {})
    by_role = {part.role: part for part in parts}
    return tuple(
        pod_set(
            role=part.role,
            count=part.count,
            template=part.template,
            spot=part.spot.below("template"),
            objects=objects,
            pod_names=replicas.pod_names(job, part.role, part.count),
            labels=replicas.labels(
                job,
                "pytorchjob-controller",
                part.role,
                part.count,
                leads=part.role == "master" or ("master" not in by_role and part.count.value == 1),
            ),
            overrides={"restartPolicy": part.restart_policy("OnFailure")},
            inject=lambda _, __, part=part: tuple(_environment(job, by_role, part)),  # type: ignore[misc]
            added_init=(_waits_for_master(job),) if part.role == "worker" and "master" in by_role else (),
        )
        for part in parts
    )


def _waits_for_master(job: Object) -> dict[str, Any]:
    """The init container that workers get where there is a master, as the operator makes it unless told otherwise."""
    tries = "err=1;for i in $(seq 100); do if nslookup"
    wait = "then err=0 && break; fi;echo waiting for master; sleep 2; done; exit $err"
    return {
        "name": "init-pytorch",
        "image": "alpine:3.10",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
        "command": ["sh", "-c", f"{tries} {object_name(job)}-master-0; {wait}"],
    }


def _environment(job: Object, by_role: Mapping[str, Replicas], part: Replicas) -> Iterator[InjectedVariable]:
    """What the operator appends to the `env` of every container, in its order, so that it overrides the user's."""
    spec = mapping(job.data.get("spec"))
    elastic = spec.get("elasticPolicy")
    pods = Setting(replicas.total(by_role.values()), _counted(by_role, part))
    processes = _processes(job, spec, elastic)
    yield InjectedVariable("PYTHONUNBUFFERED", "1", job.at("spec"))
    if (master := by_role.get("master")) is not None:
        port = replicas.named_port(master, CONTAINER, PORT_NAME, PORT)
        name = object_name(job)
        address = f"{name}-master-0" if name else None
        for variable in ("MASTER_PORT", "PET_MASTER_PORT"):
            yield InjectedVariable(variable, _text(port.value), port.spot)
        for variable in ("MASTER_ADDR", "PET_MASTER_ADDR"):
            yield InjectedVariable(variable, address, job.at("metadata", "name"))
        number = processes.value if processes is not None else "1"
        a_pod = digits(number)
        world = None if pods.value is None else str(pods.value * (1 if a_pod is None else a_pod))
        yield InjectedVariable("WORLD_SIZE", world, pods.spot)
        first = 0 if part.role == "master" else 1
        rank = str(first) if part.count.value == 1 else None
        yield InjectedVariable("RANK", rank, part.spot)
        yield InjectedVariable("PET_NODE_RANK", rank, part.spot)
    if processes is not None:
        yield InjectedVariable("PET_NPROC_PER_NODE", processes.value, processes.spot)
    if isinstance(elastic, dict):
        yield from _elastic(job, elastic, by_role)
    else:
        yield InjectedVariable("PET_NNODES", _text(pods.value), pods.spot)


def _counted(by_role: Mapping[str, Replicas], part: Replicas) -> Spot:
    """The count to point at where the sum of all counts is meant."""
    return by_role.get("worker", part).count.spot


def _processes(job: Object, spec: Mapping[Any, Any], elastic: Any) -> Setting | None:
    """`nprocPerNode`; None where the older field of `elasticPolicy` stands in for it."""
    spot = job.at("spec", "nprocPerNode")
    written = spec.get("nprocPerNode")
    if written is not None:
        return Setting(written if isinstance(written, str) else None, spot)
    if mapping(elastic).get("nProcPerNode") is not None:
        return None
    return Setting("auto", spot, implied=True)


def _elastic(job: Object, policy: Mapping[Any, Any], by_role: Mapping[str, Replicas]) -> Iterator[InjectedVariable]:
    spot = job.at("spec", "elasticPolicy")
    worker = by_role.get("worker")
    name = object_name(job)
    host = text(policy.get("rdzvHost")) or (f"{name}-worker-0" if name else None)
    port: Setting | None = None
    if policy.get("rdzvPort") is not None:
        port = Setting(count(policy["rdzvPort"]), spot.below("rdzvPort"))
    elif worker is not None:
        port = replicas.named_port(worker, CONTAINER, PORT_NAME, PORT)
    known = host is not None and port is not None and port.value is not None
    where = spot.below("rdzvHost") if policy.get("rdzvHost") else spot
    yield InjectedVariable("PET_RDZV_ENDPOINT", f"{host}:{port.value}" if known and port is not None else None, where)
    yield InjectedVariable("PET_RDZV_BACKEND", text(policy.get("rdzvBackend")) or "c10d", spot.below("rdzvBackend"))
    yield InjectedVariable("PET_NNODES", _range(policy, worker), _range_spot(spot, policy, worker))
    for variable, field in (("PET_MAX_RESTARTS", "maxRestarts"), ("PET_NPROC_PER_NODE", "nProcPerNode")):
        if policy.get(field) is not None:
            yield InjectedVariable(variable, _text(count(policy[field])), spot.below(field))
    if policy.get("rdzvId") is not None:
        yield InjectedVariable("PET_RDZV_ID", text(policy["rdzvId"]) or None, spot.below("rdzvId"))
    if pairs := [f"{text(pair.get('key'))}={text(pair.get('value'))}" for _, pair in entries(policy.get("rdzvConf"))]:
        yield InjectedVariable("PET_RDZV_CONF", ",".join(pairs), spot.below("rdzvConf"))
    if policy.get("standalone") is True:
        yield InjectedVariable("PET_STANDALONE", "", spot.below("standalone"))


def _range(policy: Mapping[Any, Any], worker: Replicas | None) -> str | None:
    """`min:max`, each standing in for the other, and the workers' count for both."""
    workers = None if worker is None else worker.count.value
    least, most = policy.get("minReplicas"), policy.get("maxReplicas")
    least, most = (least if least is not None else most), (most if most is not None else least)
    least, most = (count(least), count(most)) if least is not None else (workers, workers)
    return None if least is None or most is None else f"{least}:{most}"


def _range_spot(spot: Spot, policy: Mapping[Any, Any], worker: Replicas | None) -> Spot:
    for field in ("maxReplicas", "minReplicas"):
        if policy.get(field) is not None:
            return spot.below(field)
    return spot if worker is None else worker.count.spot


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
