"""kubeflow.org/v1 TFJob, as the training operator runs it (read from v1.9.4)."""

import json
from collections.abc import Sequence

from trainyard.objects.objects import Object
from trainyard.workload import replicas
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.model import PodSet
from trainyard.workload.plain import mapping
from trainyard.workload.pods import MOST_HOSTNAMES, pod_set
from trainyard.workload.replicas import Replicas

CONTAINER = "tensorflow"
PORT_NAME = "tfjob-port"
PORT = 2222

services = replicas.a_service_a_pod


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """Chief or master, workers, parameter servers, evaluators."""
    parts = _parts(job)
    led = any(part.role in ("chief", "master") for part in parts)
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
                "tfjob-controller",
                part.role,
                part.count,
                leads=part.role in ("chief", "master") or (not led and part.role == "worker" and part.count.value == 1),
            ),
            overrides={"restartPolicy": part.restart_policy("Never")},
            inject=lambda _, name, part=part: _environment(job, parts, part, name),  # type: ignore[misc]
        )
        for part in parts
    )


def _parts(job: Object) -> tuple[Replicas, ...]:
    return replicas.replicas(job, "tfReplicaSpecs", ("Chief", "Master", "Worker", "PS", "Evaluator"), {})


def _environment(
    job: Object, parts: Sequence[Replicas], part: Replicas, container: str
) -> tuple[InjectedVariable, ...]:
    """TF_CONFIG, which only the container named `tensorflow` gets, and only if there is more than one pod."""
    if container != CONTAINER or replicas.total(parts) == 1:
        return ()
    value = cluster_config(job, part.role, 0) if part.count.value == 1 else None
    return (InjectedVariable("TF_CONFIG", value, job.at("spec", "tfReplicaSpecs")),)


def cluster_config(job: Object, role: str, index: int) -> str | None:
    """The variable's value for one pod of a replica type; None where a count or a port is not known."""
    parts = _parts(job)
    pods = replicas.total(parts)
    if pods is None or pods > MOST_HOSTNAMES or mapping(job.data.get("spec")).get("enableDynamicWorker") is True:
        return None
    cluster: dict[str, list[str]] = {}
    for each in sorted(parts, key=lambda item: item.role):
        port = replicas.named_port(each, CONTAINER, PORT_NAME, PORT)
        names = replicas.pod_names(job, each.role, each.count)
        if port.value is None or len(names) != each.count.value or not job.namespace:
            return None
        cluster[each.role] = [f"{name}.{job.namespace}.svc:{port.value}" for name in names]
    config = {"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"}
    return json.dumps(config, separators=(",", ":"))
