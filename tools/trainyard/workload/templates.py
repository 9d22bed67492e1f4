"""Pods that Kubernetes' own controllers make of one template: Pod, StatefulSet, Deployment, CronJob and their like.

Most such objects do not train. `trains` tells those that count as a job.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.indexed_job import jobs_pods
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, entries, mapping, text
from trainyard.workload.pods import numbered, object_name, pod_set

SERVING = ("DaemonSet", "Deployment", "LeaderWorkerSet", "ReplicaSet", "RayService")
"""Kinds whose pods are made again for ever: they serve, or are made to train by hand."""
ALONE = (*SERVING, "Pod")
"""Kinds of which several may make one job, each with its part of the ranks."""
_DEVICES = ("nvidia.com/", "amd.com/", "rdma/", "vpc.amazonaws.com/efa", "aws.amazon.com/neuron", "google.com/tpu")


def pods(item: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The pods of a Pod, StatefulSet, Deployment, ReplicaSet, DaemonSet or CronJob."""
    spec = mapping(item.data.get("spec"))
    name = object_name(item)
    if item.kind == "Pod":
        found = _set(item, item.at(), item.data, objects, Setting(1, item.at(), implied=True), (name,) if name else ())
    elif item.kind == "CronJob":
        job, spot = mapping(mapping(spec.get("jobTemplate")).get("spec")), item.at("spec", "jobTemplate", "spec")
        found = _set(item, spot.below("template"), mapping(job.get("template")), objects, jobs_pods(job, spot))
    else:
        stateful = item.kind == "StatefulSet"
        replicas = Setting(None, item.at("spec")) if item.kind == "DaemonSet" else _replicas(item, spec)
        names = numbered(name, replicas.value) if stateful else ()
        template = mapping(spec.get("template"))
        found = _set(item, item.at("spec", "template"), template, objects, replicas, names)
    return (found,)


def groups(item: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The leaders and workers of a LeaderWorkerSet."""
    spec = mapping(item.data.get("spec"))
    of_group = mapping(spec.get("leaderWorkerTemplate"))
    spot, name, many = item.at("spec", "leaderWorkerTemplate"), object_name(item), _replicas(item, spec)
    size = 1 if of_group.get("size") is None else count(of_group["size"])
    fields = ("leaderTemplate", "workerTemplate") if isinstance(of_group.get("leaderTemplate"), dict) else ("", "")
    leader = f"{name}-0.{name}.{item.namespace}" if many.value == 1 and name and item.namespace else None

    def inject(_: int, __: str) -> Sequence[InjectedVariable]:
        return (
            InjectedVariable("LWS_LEADER_ADDRESS", leader, spot),
            InjectedVariable("LWS_GROUP_SIZE", None if size is None else str(size), spot.below("size")),
            InjectedVariable("LWS_WORKER_INDEX", None, spot),
        )

    found = []
    for role, field in zip(("leader", "worker"), fields, strict=True):
        field = field or "workerTemplate"
        alone = 1 if role == "leader" else None if size is None else size - 1
        if alone == 0 or not isinstance(of_group.get(field), dict):
            continue
        total = None if many.value is None or alone is None else many.value * alone
        names = numbered(name, many.value) if role == "leader" else ()
        found.append(
            pod_set(
                role=role,
                count=Setting(total, spot.below("size") if role == "worker" else many.spot),
                template=of_group[field],
                spot=spot.below(field),
                objects=objects,
                hostnames=names,
                subdomain=Setting(name, item.at("metadata", "name"), implied=True) if name else None,
                labels={"leaderworkerset.sigs.k8s.io/name": name} if name else {},
                inject=inject,
            )
        )
    return tuple(found)


def _set(
    item: Object,
    spot: Spot,
    template: Mapping[Any, Any],
    objects: Sequence[Object],
    number: Setting,
    names: tuple[str, ...] = (),
) -> PodSet:
    spec = mapping(item.data.get("spec"))
    service = text(spec.get("serviceName")) if item.kind == "StatefulSet" else ""
    claims = [
        {"name": mapping(claim.get("metadata")).get("name"), "ephemeral": {"volumeClaimTemplate": claim}}
        for _, claim in entries(spec.get("volumeClaimTemplates"))
    ]
    own = [volume for _, volume in entries(mapping(template.get("spec")).get("volumes"))]
    return pod_set(
        role=item.kind.lower(),
        count=number,
        template=template,
        spot=spot,
        objects=objects,
        hostnames=names if item.kind == "StatefulSet" else (),
        subdomain=Setting(service, item.at("spec", "serviceName")) if service else None,
        overrides={"volumes": [*own, *claims]} if claims else {},
    )


def _replicas(item: Object, spec: Mapping[Any, Any]) -> Setting:
    written = spec.get("replicas")
    spot = item.at("spec", "replicas")
    return Setting(1, spot, implied=True) if written is None else Setting(count(written), spot)


def trains(found: PodSet) -> bool:
    """Whether pods ask for an accelerator, or start ranks."""
    for container in (*found.containers, *found.init_containers):
        if container.launch is not None and container.launch.launcher != "python":
            return True
        if any(name.startswith(_DEVICES) for name in (*container.limits, *container.requests)):
            return True
    return False
