"""A control plane with real controllers and kwok's nodes, and jobs that run on it."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.controlplane.owned import owned
from trainyard.controlplane import Client, Plane, Refused, running
from trainyard.controlplane.controllers import COSCHEDULER, controller
from trainyard.controlplane.definitions import load_definitions
from trainyard.gitops.cluster import Platforms
from trainyard.kustomize.render import render
from trainyard.kustomize.rendered import rendered_folder
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.repository.discover import Target, TargetKind
from trainyard.verify.dry_run import wait_for
from trainyard.workload.model import Workload
from trainyard.workload.of_unit import workloads
from trainyard.yaml.sources import Sources

HOME = Path(__file__).resolve().parents[2]
COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kwok")
CONTROLLERS_OF: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("batch", "Job"): (),
    ("jobset.x-k8s.io", "JobSet"): ("jobset",),
    ("kubeflow.org", "MPIJob"): ("mpi-operator",),
    ("kubeflow.org", "PyTorchJob"): ("training-operator",),
    ("kubeflow.org", "TFJob"): ("training-operator",),
    ("ray.io", "RayCluster"): ("ray-operator",),
    ("ray.io", "RayJob"): ("ray-operator",),
    ("trainer.kubeflow.org", "TrainJob"): ("jobset", "trainer"),
}
"""What runs a job, by its group and kind, beside kube-controller-manager."""

MADE = (
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("ray.io/v1", "RayCluster"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "PersistentVolumeClaim"),
)
"""Kinds that controllers make for a job, owners first."""

Json = dict[str, Any]


def unit_of(folder: str, root: Path = HOME) -> Unit:
    """A folder of the repository as it renders, with the platform of the cluster that it lands on."""
    return units_of([folder], root)[folder]


def units_of(folders: Sequence[str], root: Path) -> dict[str, Unit]:
    """Folders of a repository as they render, each with the platform of the cluster that it lands on."""
    sources = Sources(root)
    platforms = Platforms(root, sources)
    found = {}
    for folder, rendering in zip(folders, render(root, folders), strict=True):
        kind = TargetKind.JOB if (root / folder / "job.yaml").exists() else TargetKind.KUSTOMIZATION
        found[folder] = platforms.under(*rendered_folder(sources, Target(folder, kind), rendering).whole())[0]
    return found


def workload_of(unit: Unit) -> Workload:
    """The one training job of a unit."""
    (workload,) = workloads(unit)
    return workload


def nodes_of(cluster: Object, fabric: Object, count: int | None = None) -> Iterator[Json]:
    """The cluster's nodes as kwok is to play them: capacity, labels and taints are the facts'."""
    facts = cluster.data["spec"]
    node = facts["node"]
    capacity = {"cpu": str(node["cpu"]), "memory": node["memory"], "nvidia.com/gpu": str(node["gpus"])}
    capacity |= {name: str(amount) for name, amount in (fabric.data["spec"]["resources"].get("limits") or {}).items()}
    taints = [
        {"key": each["key"], "value": each.get("value", ""), "effect": each["effect"]}
        for each in facts["tolerations"]
        if each.get("effect")
    ]
    for index in range(facts["nodes"] if count is None else count):
        yield node_named(f"{cluster.name}-{index}", capacity, facts["nodeSelector"], taints)


def node_named(name: str, capacity: Json, labels: Json | None = None, taints: Sequence[Json] = ()) -> Json:
    """A node for kwok to play."""
    capacity = {"pods": "110", "ephemeral-storage": "4Ti"} | capacity
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**(labels or {}), "kubernetes.io/hostname": name, "type": "kwok"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": list(taints)},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


@dataclass(frozen=True, slots=True)
class Run:
    """A job whose pods run."""

    ground: "Ground"
    workload: Workload
    pods: list[Json]


@dataclass(frozen=True, slots=True)
class Ground:
    """A control plane that holds nodes, and perhaps the platform of a cluster."""

    plane: Plane
    client: Client
    _ends: contextlib.ExitStack = field(repr=False)
    controllers: list[str] = field(default_factory=list)
    """Those of CONTROLLERS that run here, in the order in which they were started."""

    def ensure(self, *names: str) -> None:
        """Start controllers that do not run yet; they end with the control plane."""
        for name in names:
            if name not in self.controllers:
                self._ends.enter_context(controller(name, self.plane))
                self.controllers.append(name)

    def add_node(self, node: Json) -> None:
        """A node that is ready."""
        self.client.create(node)
        # A new node gets a taint that the node life cycle controller takes away. It does not run: these are kwok's.
        self.client.patch(node, {"spec": {"taints": node["spec"]["taints"]}})
        self.client.patch(node, {"status": node["status"]}, below="status")

    def provision(self, namespace: str) -> None:
        """A volume for each claim that waits for one, as a provisioner would make it."""
        for claim in self.client.list("v1", "PersistentVolumeClaim", namespace):
            if claim["status"].get("phase") != "Bound":
                self._add_volume(claim)

    def _add_volume(self, claim: Json) -> None:
        if not claim["spec"].get("volumeName"):  # else the cluster's platform brings it
            self.client.apply(volume_for(claim))

    def apply(self, unit: Unit) -> None:
        """Apply all objects of a unit, in order; a webhook may need a moment to see what an object names."""
        for item in unit.objects:
            self.client.until(f"{item.title} that is taken", partial(self._is_taken, item.data))

    def _is_taken(self, item: Json) -> bool:
        try:
            self.client.apply(item)
        except Refused as refused:
            if "admission webhook" in str(refused) and "not found" in str(refused):
                return False
            raise
        return True

    def pods(self, workload: Workload, count: int | None = None, seconds: float = 60) -> list[Json]:
        """The job's pods by name, once there are as many as the workload says."""
        wanted = workload.pods if count is None else count
        job = workload.object

        def found() -> list[Json] | None:
            pods = owned(self.client, job.data, "v1", "Pod")
            return pods if len(pods) == wanted else None

        pods: list[Json] = self.client.until(f"{wanted} pods of {job.title}", found, seconds)
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def running_pods(self, workload: Workload, seconds: float = 180) -> list[Json]:
        """The job's pods, once every one of them was placed on a node and ran there.

        Those that others wait for end as soon as they run: the initializers of a TrainJob.
        """

        def all_ran() -> bool:
            self.provision(workload.object.namespace)
            pods = owned(self.client, workload.object.data, "v1", "Pod")
            for pod in pods:
                if _others_wait_for(pod) and pod["status"].get("phase") == "Running":
                    finish(self.client, pod)
            return len(pods) == workload.pods and all(
                pod["status"].get("phase") in ("Running", "Succeeded") for pod in pods
            )

        self.client.until(f"{workload.pods} running pods of {workload.object.title}", all_ran, seconds)
        return self.pods(workload)

    @contextlib.contextmanager
    def job(self, unit: Unit) -> Iterator[Run]:
        """A unit's job, run by its controllers; its objects and its pods are gone afterwards."""
        workload = workload_of(unit)
        self.ensure(*CONTROLLERS_OF[workload.object.group, workload.object.kind])
        if any(pod_set.spec.get("schedulerName") == COSCHEDULER for pod_set in workload.pod_sets):
            self.ensure("coscheduling")
        claims = list(missing_claims(workload))
        try:
            # Claims that bind at once spare the scheduler a second try, which it puts off for up to ten seconds.
            for claim in (*claims, *(item.data for item in workload.of_kind("PersistentVolumeClaim"))):
                self._add_volume(claim)
            for claim in claims:
                self.client.create(claim)
            self.apply(unit)
            yield Run(self, workload, self.running_pods(workload))
        finally:
            self._remove((*claims, *(item.data for item in unit.objects)), workload)

    def _remove(self, objects: Sequence[Json], workload: Workload) -> None:
        made = list(self._made(workload))
        for item in (*reversed(objects), *made):
            with contextlib.suppress(Refused):  # not created, or gone with its owner
                self.client.delete(item)
        pods = {item["metadata"]["uid"] for item in made if item["kind"] == "Pod"}
        namespace = workload.object.namespace

        def gone() -> bool:
            return pods.isdisjoint(pod["metadata"]["uid"] for pod in self.client.list("v1", "Pod", namespace))

        self.client.until(f"end of the pods of {workload.object.title}", gone, 60)
        for item in (*objects, *made):
            if item["kind"] == "PersistentVolumeClaim":
                with contextlib.suppress(Refused):  # not bound
                    self.client.delete(volume_for(item))

    def _made(self, workload: Workload) -> Iterator[Json]:
        """What the job's controllers made. The garbage collector finds what custom resources own only in minutes."""
        for api_version, kind in MADE:
            if self.client.serves(api_version, kind):
                with contextlib.suppress(Refused):  # the job was not created
                    yield from owned(self.client, workload.object.data, api_version, kind)


def _others_wait_for(pod: Json) -> bool:
    """Whether a pod prepares what the others of its job need."""
    step = pod["metadata"].get("labels", {}).get("jobset.sigs.k8s.io/replicatedjob-name", "")
    return str(step).endswith("-initializer")


@contextlib.contextmanager
def ground(*components: str) -> Iterator[Ground]:
    """A control plane without nodes."""
    with (
        running(*(components or COMPONENTS)) as plane,
        contextlib.closing(plane.client()) as client,
        contextlib.ExitStack() as ends,
    ):
        yield Ground(plane, client, ends)


@contextlib.contextmanager
def ground_for(unit: Unit, *components: str, nodes: int | None = None) -> Iterator[Ground]:
    """A control plane with the platform of the cluster that a job lands on, volumes for its claims, and its nodes."""
    cluster, fabric = unit.fact("Cluster"), unit.fact("Fabric")
    assert cluster is not None
    assert fabric is not None
    platform = unit_of(f"clusters/{cluster.name}/platform")
    with ground(*components) as made:
        load_definitions(made.client, [(item.api_version, item.kind) for item in platform.objects])
        namespaces = {item.namespace for item in (*platform.objects, *unit.objects)} - {""}
        apply_platform(made.client, platform, namespaces)
        for node in nodes_of(cluster, fabric, nodes):
            made.add_node(node)
        if nodes != 0:  # where operators run, and what of a job needs no GPU
            made.add_node(node_named(f"{cluster.name}-system", {"cpu": "64", "memory": "256Gi"}))
        for name in sorted(namespaces):
            made.provision(name)
            quotas_known(made.client, name)
        yield made


def apply_platform(client: Client, platform: Unit, namespaces: Iterable[str] = ()) -> None:
    """Apply what a cluster holds before any job comes; kinds that are not served are left out.

    Made first are definitions and namespaces, those too that the operators of the platform bring.
    """
    for item in platform.objects:
        if item.kind == "CustomResourceDefinition":
            client.apply(item.data)
            wait_for(client, item)
    for name in sorted({*namespaces, *(item.namespace for item in platform.objects)} - {""}):
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for item in sorted(platform.objects, key=lambda item: item.kind != "Namespace"):
        if client.serves(item.api_version, item.kind):
            client.apply(item.data)


def missing_claims(workload: Workload) -> Iterator[Json]:
    """The claims that pods name and nothing brings: whoever runs the cluster has made them."""
    namespace = workload.object.namespace
    known = {claim.name for claim in workload.of_kind("PersistentVolumeClaim")}
    for pod_set in workload.pod_sets:
        for volume in pod_set.spec.get("volumes") or ():
            name = volume.get("persistentVolumeClaim", {}).get("claimName")
            if name is None or name in known:
                continue
            known.add(name)
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "shared",
                    "resources": {"requests": {"storage": "1Ti"}},
                },
            }


def volume_for(claim: Json) -> Json:
    """A volume that the claim is bound to."""
    spec, metadata = claim["spec"], claim["metadata"]
    named = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{named['namespace']}-{named['name']}"},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named},
            "csi": {"driver": "storage.example.com", "volumeHandle": f"{named['namespace']}-{named['name']}"},
        },
    }


def quotas_known(client: Client, namespace: str) -> None:
    """Wait until the quota controller has counted what is used: pods are refused before."""
    client.until(
        f"counted quota in {namespace}",
        lambda: all(quota.get("status", {}).get("used") for quota in client.list("v1", "ResourceQuota", namespace)),
    )


def finish(client: Client, pod: Json, *, phase: str = "Succeeded", exit_code: int = 0, disrupted: bool = False) -> None:
    """Say that a pod ended, as its node would."""
    name = pod["spec"]["containers"][0]["name"]
    ended = {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0}
    ended["state"] = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error"}}
    status: Json = {"phase": phase, "containerStatuses": [ended]}
    if disrupted:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    client.patch(pod, {"status": status}, below="status")
