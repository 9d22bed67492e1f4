"""ray.io/v1 RayCluster and RayJob, as KubeRay runs them (read from v1.6.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload import kuberay
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.indexed_job import names_of_job
from trainyard.workload.kuberay import Cluster
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, entries, mapping, text
from trainyard.workload.pods import object_name, places, pod_set
from trainyard.workload.ray_entrypoint import with_entrypoint, with_runtime_environment

HEAD = "head"
SUBMITTER = "submitter"
_LONGEST_CLUSTER, _LONGEST_JOB = 53, 47
_MOST_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Group:
    """One worker group."""

    name: str
    data: Mapping[Any, Any]
    spot: Spot
    pods: Setting


def cluster_pods(ray_cluster: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """The head, and the pods of each worker group under its name."""
    spec = mapping(ray_cluster.data.get("spec"))
    cluster = Cluster(ray_cluster, spec, ray_cluster.at("spec"), object_name(ray_cluster))
    return _pods(cluster, objects, ())


def job_pods(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """Those of the RayCluster that the RayJob makes, and the pod that submits the entrypoint."""
    spec = mapping(job.data.get("spec"))
    mode = text(spec.get("submissionMode")) or "K8sJobMode"
    found: tuple[PodSet, ...] = ()
    if isinstance(spec.get("rayClusterSpec"), dict):
        cluster = Cluster(job, spec["rayClusterSpec"], job.at("spec", "rayClusterSpec"), "", made_by="RayJob")
        sidecars = (kuberay.submitter(cluster.head_image),) if mode == "SidecarMode" else ()
        head, *workers = (with_runtime_environment(each, job) for each in _pods(cluster, objects, sidecars))
        found = (with_entrypoint(head, job), *workers)
    return (*found, _submitter(job, objects, found)) if mode == "K8sJobMode" else found


def service_pods(service: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """Those of the RayCluster that the RayService makes."""
    spec = mapping(mapping(service.data.get("spec")).get("rayClusterConfig"))
    return _pods(Cluster(service, spec, service.at("spec", "rayClusterConfig"), "", made_by="RayService"), objects, ())


def service_services(service: Object, _: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """The Service of the head under the RayService's name; that of its RayCluster has a random one."""
    name = object_name(service)
    return (MadeService(f"{name}-head-svc", ((HEAD, 0),), publishes_unready=True),) if name else ()


def cluster_services(ray_cluster: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """The head's Service, and one for workers of several hosts a replica."""
    name, spec = object_name(ray_cluster), mapping(ray_cluster.data.get("spec"))
    if not name:
        return ()
    own = mapping(mapping(mapping(spec.get("headGroupSpec")).get("headService")).get("metadata"))
    head = MadeService(text(own.get("name")) or f"{name}-head-svc", ((HEAD, 0),), publishes_unready=True)
    if not any(_hosts(data) != 1 for _, data in entries(spec.get("workerGroupSpecs"))):
        return (head,)
    pods = places((each.role, each.count.value or 0) for each in pod_sets if each.role != HEAD)
    return head, MadeService(f"{name}-headless", pods, publishes_unready=True)


def job_services(job: Object, _: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """The Service of the head under the RayJob's name; that of its RayCluster has a random one."""
    name = object_name(job)
    return (MadeService(f"{name}-head-svc", ((HEAD, 0),), publishes_unready=True),) if name else ()


def cluster_names(ray_cluster: Object, _: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The RayCluster's own name, which may be shorter than others so that its Services' names are not too long."""
    return (MadeName("the RayCluster", object_name(ray_cluster), ray_cluster.at("metadata", "name"), _LONGEST_CLUSTER),)


def job_names(job: Object, _: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The RayJob's own name: six characters go into that of its RayCluster."""
    return (MadeName("the RayJob", object_name(job), job.at("metadata", "name"), _LONGEST_JOB),)


def _pods(cluster: Cluster, objects: Sequence[Object], sidecars: Sequence[Mapping[str, Any]]) -> tuple[PodSet, ...]:
    head = mapping(cluster.spec.get("headGroupSpec"))
    spot = cluster.spot.below("headGroupSpec")
    found = [_head(cluster, objects, head, spot, sidecars)]
    found += [_workers(cluster, objects, group) for group in _groups(cluster)]
    return tuple(found)


def _head(
    cluster: Cluster, objects: Sequence[Object], head: Mapping[Any, Any], spot: Spot, sidecars: Sequence[Any]
) -> PodSet:
    template = mapping(head.get("template"))
    made = kuberay.head(cluster, head)
    added = [*sidecars, *([kuberay.autoscaler(cluster)] if cluster.scales else [])]
    overrides = made.spec | ({"restartPolicy": "Never"} if sidecars else {})
    if cluster.scales and not mapping(template.get("spec")).get("serviceAccountName") and cluster.name:
        overrides["serviceAccountName"] = cluster.name
    return pod_set(
        role=HEAD,
        count=Setting(1, spot, implied=True),
        template=template,
        spot=spot.below("template"),
        objects=objects,
        labels=made.labels,
        annotations=_annotations(cluster),
        overrides=overrides,
        inject=lambda index, name: _head_env(cluster, made.env, index, name),
        inject_init=lambda _, __: made.init_env,
        added=added,
    )


def _annotations(cluster: Cluster) -> dict[str, str]:
    """What tells of the head whether its state is kept outside of it, and where."""
    namespace = cluster.storage_namespace if cluster.survives else None
    told = {"ray.io/ft-enabled": "true" if cluster.survives else "false"}
    return told | ({kuberay.STORAGE_NAMESPACE: namespace} if namespace else {})


def _head_env(cluster: Cluster, own: Sequence[InjectedVariable], index: int, name: str) -> Sequence[InjectedVariable]:
    if index == 0:
        return own
    return kuberay.autoscaler_env(cluster) if cluster.scales and name == kuberay.AUTOSCALER else ()


def _workers(cluster: Cluster, objects: Sequence[Object], group: _Group) -> PodSet:
    made = kuberay.worker(cluster, group.name, group.data)
    return pod_set(
        role=group.name,
        count=group.pods,
        template=mapping(group.data.get("template")),
        spot=group.spot.below("template"),
        objects=objects,
        labels=made.labels,
        overrides=made.spec,
        inject=lambda index, _: made.env if index == 0 else (),
        inject_init=lambda _, name: (*made.init_env, *(made.wait_env if name == kuberay.WAITS else ())),
        added_init=made.waits,
    )


def _submitter(job: Object, objects: Sequence[Object], cluster: Sequence[PodSet]) -> PodSet:
    """The pod of the Job that submits the entrypoint and follows its log."""
    spec = mapping(job.data.get("spec"))
    image = cluster[0].containers[0].image if cluster and cluster[0].containers else ""
    own = spec.get("submitterPodTemplate")
    spot = job.at("spec", "submitterPodTemplate")
    return pod_set(
        role=SUBMITTER,
        count=Setting(1, spot, implied=True),
        template=mapping(own),
        spot=spot,
        objects=objects,
        labels=names_of_job(object_name(job)),
        overrides={} if isinstance(own, dict) else {"restartPolicy": "Never"},
        inject=lambda index, _: kuberay.submitter_env(job) if index == 0 else (),
        added=() if isinstance(own, dict) else (kuberay.submitter(image),),
    )


def _groups(cluster: Cluster) -> Iterator[_Group]:
    for index, data in entries(cluster.spec.get("workerGroupSpecs")):
        spot = cluster.spot.below("workerGroupSpecs", index)
        yield _Group(text(data.get("groupName")), data, spot, _count(data, spot))


def _count(data: Mapping[Any, Any], spot: Spot) -> Setting:
    """Pods of a group: replicas within their bounds, times hosts."""
    hosts, written = _hosts(data), data.get("replicas")
    if data.get("suspend") is True:
        return Setting(0, spot.below("suspend"))
    replicas = 0 if written is None else count(written)
    least = 0 if data.get("minReplicas") is None else count(data["minReplicas"])
    most = _MOST_REPLICAS if data.get("maxReplicas") is None else count(data["maxReplicas"])
    if replicas is None or least is None or most is None or hosts is None:
        return Setting(None, spot.below("replicas"))
    field = "minReplicas" if replicas < least else "maxReplicas" if replicas > most else "replicas"
    wanted = least if replicas < least else min(replicas, most)
    return Setting(wanted * hosts, spot.below(field), implied=written is None)


def _hosts(data: Mapping[Any, Any]) -> int | None:
    return 1 if data.get("numOfHosts") is None else count(data["numOfHosts"])
