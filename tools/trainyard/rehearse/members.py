"""The pods of a job one by one, each with what its controller tells it alone: its number, its peers, its token."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainyard.objects.objects import Object
from trainyard.workload import jobset, ray, replicas, tfjob
from trainyard.workload.adapters import made_services
from trainyard.workload.indexed_job import INDEX_ANNOTATION, INDEX_VARIABLE, jobs_pods
from trainyard.workload.kuberay import DASHBOARD_PORT
from trainyard.workload.made import MadeObject, Part, made_object, part_of
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import count, entries, mapping, text

VOLCANO = "batch.volcano.sh"
TASK_INDEX = "volcano.sh/task-index"
SERVICE_LABEL = "rehearsal.trainyard.dev/"
"""Prefix of the labels by which Services that controllers make select their pods."""
_SUFFIX = "rehrs"
"""What stands for the random end of a name."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of the job, before its containers are looked at."""

    name: str
    """Unique in the job, and what reports call it: its host name where it has one."""
    pod_set: PodSet
    index: int
    """Its number in its pod set."""
    hostname: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    variables: Mapping[str, str]
    """What its controller gives it, where that differs from pod to pod."""

    @property
    def subdomain(self) -> str:
        """Its subdomain, or nothing."""
        named = self.pod_set.subdomain
        return str(named.value) if named is not None and named.value else ""


@dataclass(frozen=True, slots=True)
class Members:
    """All pods of a job, and the Services that its controller makes for them."""

    pods: tuple[Member, ...]
    services: tuple[Mapping[str, Any], ...]


def members(workload: Workload) -> Members:
    """The pods of a job whose counts are known."""
    cluster = _ray_cluster(workload)
    if cluster is not None:
        head_and_workers = ray.cluster_pods(cluster, workload.objects)
        submitter = tuple(each for each in workload.pod_sets if each.role == ray.SUBMITTER)
        pod_sets = (*head_and_workers, *submitter)
        services = ray.cluster_services(cluster, pod_sets)
        told = _of_ray(workload, cluster, services)
    else:
        pod_sets, services = workload.pod_sets, made_services(workload)
        told = {}
    found = [
        _member(workload, pod_set, index, told) for pod_set in pod_sets for index in range(pod_set.count.value or 0)
    ]
    by_place = {(each.pod_set.role, each.index): number for number, each in enumerate(found)}
    for service in services:
        for place in service.pods:
            number = by_place[place]
            labels = {**found[number].labels, f"{SERVICE_LABEL}{service.name}": ""}
            found[number] = replace(found[number], labels=labels)
    namespace = workload.object.namespace
    return Members(tuple(found), tuple(_service(service, namespace) for service in services))


def _service(made: MadeService, namespace: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": made.name, "namespace": namespace},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": made.publishes_unready,
            "selector": {f"{SERVICE_LABEL}{made.name}": ""},
        },
    }


def _member(workload: Workload, pod_set: PodSet, index: int, told: Mapping[str, str]) -> Member:
    unique = len(set(pod_set.hostnames)) == len(pod_set.hostnames) > index
    hostname = pod_set.hostnames[index] if len(pod_set.hostnames) > index else ""
    job = workload.object.name
    name = hostname if unique else "-".join(part for part in (job, _role(pod_set), str(index)) if part)
    labels, annotations, variables = dict(pod_set.labels), dict(pod_set.annotations), dict(told)
    variables |= {"RAY_CLOUD_INSTANCE_ID": name}
    kind = workload.object.kind
    if workload.object.group == VOLCANO:
        labels[TASK_INDEX] = annotations[TASK_INDEX] = str(index)
        variables |= _of_volcano(index)
    elif kind in ("Job", "JobSet", "TrainJob"):
        pods, of_job = _place(pod_set, index)
        if INDEX_VARIABLE in _told(pod_set):
            labels[INDEX_ANNOTATION] = annotations[INDEX_ANNOTATION] = str(pods)
            variables[INDEX_VARIABLE] = str(pods)
        if kind != "Job":
            labels |= _job_labels(pod_set, of_job)
        variables |= {name: str(pods) for name in ("PET_NODE_RANK", "JAX_PROCESS_ID", "DMLC_TASK_ID")}
    elif kind in ("PyTorchJob", "TFJob", "MPIJob"):
        labels[replicas.REPLICA_INDEX] = str(index)
        variables |= _of_replica(workload.object, pod_set, index)
    return Member(name, pod_set, index, hostname or name, labels, annotations, variables)


def _of_volcano(index: int) -> dict[str, str]:
    """What Volcano's plugins `env` and `pytorch` tell one pod. A master's rank is known without its number."""
    return {"VC_TASK_INDEX": str(index), "VK_TASK_INDEX": str(index), "RANK": str(index + 1)}


def _role(pod_set: PodSet) -> str:
    return "" if pod_set.role == "job" else pod_set.role


def _told(pod_set: PodSet) -> set[str]:
    """Names of the variables that the controller gives to the pods of a set."""
    containers = (*pod_set.containers, *pod_set.init_containers)
    return {name for each in containers for name, found in each.env.items() if found.origin == "controller"}


def _place(pod_set: PodSet, index: int) -> tuple[int, int]:
    """Completion index in its Job, and the number of its Job in the replicatedJob."""
    job = pod_set.template.object
    pods = pod_set.count.value or 1
    if job.kind == "JobSet":
        for _, each in entries(mapping(job.data.get("spec")).get("replicatedJobs")):
            if each.get("name") == pod_set.role:
                spec = mapping(mapping(each.get("template")).get("spec"))
                pods = jobs_pods(spec, job.at()).value or 1
    return index % pods, index // pods


def _job_labels(pod_set: PodSet, of_job: int) -> dict[str, str]:
    """Labels of a pod of a JobSet that has several Jobs of one template."""
    owner = pod_set.template.object
    name = f"{owner.name}-{pod_set.role}-{of_job}"
    key = hashlib.sha1(f"{owner.namespace}/{name}".encode()).hexdigest()
    prefix = jobset.JOBSET_NAME.partition("/")[0]
    return {"job-name": name, "batch.kubernetes.io/job-name": name, f"{prefix}/job-index": str(of_job)} | {
        f"{prefix}/job-key": key
    }


def _of_replica(job: Object, pod_set: PodSet, index: int) -> dict[str, str]:
    """What the training operator tells one pod."""
    if job.kind == "PyTorchJob":
        rank = str(index if pod_set.role == "master" else index + 1)
        return {"RANK": rank, "PET_NODE_RANK": rank}
    if job.kind == "TFJob":
        config = tfjob.cluster_config(job, pod_set.role, index)
        return {} if config is None else {"TF_CONFIG": config}
    return {}


def _ray_cluster(workload: Workload) -> MadeObject | Object | None:
    """The RayCluster that runs the job, on CPUs: a CPU for each GPU that a rank would take."""
    job = workload.object
    if job.kind == "RayCluster":
        below, name = job.at("spec"), job.name
        spec = mapping(job.data.get("spec"))
    elif job.kind == "RayJob":
        below, name = job.at("spec", "rayClusterSpec"), f"{job.name}-{_SUFFIX}"
        spec = mapping(mapping(job.data.get("spec")).get("rayClusterSpec"))
    else:
        return None
    whole = {"apiVersion": job.api_version, "kind": "RayCluster"}
    tree = part_of(whole, job.at())
    metadata = {"name": name, "namespace": job.namespace}
    tree.value["metadata"] = part_of(metadata, job.at("metadata"))
    tree.value["spec"] = part_of(json.loads(json.dumps(spec)), below)
    for group in (tree.value["spec"].child("headGroupSpec"), *tree.value["spec"].items("workerGroupSpecs")):
        if group is not None:
            _on_cpus(group)
    return made_object(tree, job)


def _on_cpus(group: Part) -> None:
    params = group.make("rayStartParams")
    named = params.value.pop("num-gpus", None)
    gpus = 0 if named is None else int(named.value) if str(named.value).isdigit() else 0
    template = group.at("template", "spec")
    for container in template.items("containers") if template is not None else ():
        limits = container.at("resources", "limits")
        if limits is not None:
            gpus = gpus or sum(count(part.value) or 0 for name, part in limits.value.items() if name.endswith("/gpu"))
    if gpus:
        params.value["num-cpus"] = Part(str(gpus), params.spot)
        params.value["num-gpus"] = Part("0", params.spot)


def _of_ray(workload: Workload, cluster: Object, services: Sequence[MadeService]) -> dict[str, str]:
    """What KubeRay knows once the cluster is there."""
    head = next(iter(services))
    token = secrets.token_hex(16)
    job_id = text(mapping(workload.object.data.get("spec")).get("jobId"))
    return {
        "RAY_AUTH_TOKEN": token,
        "RAY_DASHBOARD_ADDRESS": f"{head.name}.{cluster.namespace}.svc.cluster.local:{DASHBOARD_PORT}",
        "RAY_JOB_SUBMISSION_ID": job_id or f"{workload.object.name}-{_SUFFIX}",
    }
