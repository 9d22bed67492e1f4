"""A fresh control plane with real controllers and kwok's nodes, a job on it, and its pods held against its Workload."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.controlplane import Client, Plane, running
from trainyard.controlplane.client import Refused
from trainyard.discover import Target, TargetKind
from trainyard.objects import Object
from trainyard.render import render
from trainyard.rendered import Prepared
from trainyard.sources import Sources
from trainyard.unit import Unit
from trainyard.workload import workloads
from trainyard.workload.model import Container, PodSet, Workload

HOME = Path(__file__).resolve().parents[2]
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kwok")

Json = dict[str, Any]


def unit_of(folder: str, root: Path = HOME) -> Unit:
    """A folder of the repository as it renders."""
    kind = TargetKind.JOB if (root / folder / "job.yaml").exists() else TargetKind.KUSTOMIZATION
    prepared = Prepared(Sources(root), Target(folder, kind))
    assert not prepared.findings, prepared.findings
    (rendering,) = render(root, [folder])
    return prepared.unit(rendering)[0]


def workload_of(unit: Unit) -> Workload:
    """The one training job of a unit."""
    (workload,) = workloads(unit)
    return workload


def nodes_of(cluster: Object, fabric: Object, count: int | None = None) -> Iterator[Json]:
    """The cluster's nodes as kwok is to play them: capacity, labels and taints are the facts'."""
    facts = cluster.data["spec"]
    node = facts["node"]
    capacity = {"cpu": str(node["cpu"]), "memory": node["memory"], "pods": "110", "ephemeral-storage": "4Ti"}
    capacity["nvidia.com/gpu"] = str(node["gpus"])
    capacity |= {name: str(amount) for name, amount in (fabric.data["spec"]["resources"].get("limits") or {}).items()}
    taints = [
        {"key": each["key"], "value": each.get("value", ""), "effect": each["effect"]}
        for each in facts["tolerations"]
        if each.get("effect")
    ]
    for index in range(facts["nodes"] if count is None else count):
        name = f"{cluster.name}-{index}"
        labels = {**facts["nodeSelector"], "kubernetes.io/hostname": name, "type": "kwok"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": taints},
            "status": {"allocatable": capacity, "capacity": capacity},
        }


@dataclass(frozen=True, slots=True)
class Ground:
    """A control plane that holds the platform of a cluster and its nodes."""

    plane: Plane
    client: Client
    cluster: Object = field(repr=False)

    def apply(self, unit: Unit) -> None:
        """Apply all objects of a unit, in order."""
        for item in unit.objects:
            self.client.apply(item.data)

    def pods(self, workload: Workload, count: int | None = None, seconds: float = 30) -> list[Json]:
        """The job's pods, once there are as many as the workload says."""
        wanted = workload.pods if count is None else count
        job = workload.object
        selector = f"batch.kubernetes.io/job-name={job.name}"

        def found() -> list[Json] | None:
            pods = self.client.list("v1", "Pod", job.namespace, selector)
            return pods if len(pods) == wanted else None

        pods: list[Json] = self.client.until(f"{wanted} pods of {job.title}", found, seconds)
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def running_pods(self, workload: Workload) -> list[Json]:
        """The job's pods, once every one of them was placed on a node and runs there."""
        self.client.until(
            f"running pods of {workload.object.title}",
            lambda: all(pod["status"].get("phase") == "Running" for pod in self.pods(workload)),
        )
        return self.pods(workload)


@contextlib.contextmanager
def ground_for(unit: Unit, *components: str, nodes: int | None = None) -> Iterator[Ground]:
    """A control plane with the platform of the cluster that a job lands on, its nodes, and a volume for each claim."""
    cluster, fabric = unit.fact("Cluster"), unit.fact("Fabric")
    assert cluster is not None
    assert fabric is not None
    with running(*(components or CONTROLLERS)) as plane, contextlib.closing(plane.client()) as client:
        platform = unit_of(f"clusters/{cluster.name}/platform")
        for item in sorted(platform.objects, key=lambda item: item.kind != "Namespace"):
            client.apply(item.data)
        for node in nodes_of(cluster, fabric, nodes):
            client.create(node)
            # A new node gets a taint that the node life cycle controller takes away. It does not run: these are kwok's.
            client.patch(node, {"spec": {"taints": node["spec"]["taints"]}})
            client.patch(node, {"status": node["status"]}, below="status")
        for claim in (*platform.objects, *unit.objects):
            if claim.kind == "PersistentVolumeClaim":
                client.create(volume_for(claim))
        quotas_known(client, unit.objects[0].namespace)
        yield Ground(plane, client, cluster)


def volume_for(claim: Object) -> Json:
    """A volume that the claim is bound to, as a provisioner would have made it."""
    spec = claim.data["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{claim.namespace}-{claim.name}"},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "claimRef": {"apiVersion": "v1", "kind": claim.kind, "namespace": claim.namespace, "name": claim.name},
            "csi": {"driver": "storage.example.com", "volumeHandle": f"{claim.namespace}-{claim.name}"},
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


def differences(workload: Workload, pods: Sequence[Json], client: Client) -> list[str]:
    """Where the pods that the controllers made differ from what the Workload predicts, in words."""
    namespace = workload.object.namespace
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in client.list("v1", "ConfigMap", namespace)}
    found = []
    predicted = sum(pod_set.count.value for pod_set in workload.pod_sets)
    if predicted != len(pods):
        found.append(f"{predicted} pods are predicted, {len(pods)} are there")
    for pod_set in workload.pod_sets:
        by_index = {_index(pod): pod for pod in pods}
        if sorted(by_index) != list(range(pod_set.count.value)):
            found.append(f"ranks 0 to {pod_set.count.value - 1} are predicted, {sorted(by_index)} are there")
        for index, pod in sorted(by_index.items()):
            found += [f"{pod['metadata']['name']}: {text}" for text in _of_pod(pod_set, index, pod, maps)]
        found += _of_services(workload, pod_set, pods, client)
    return found


def _index(pod: Json) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def _of_pod(pod_set: PodSet, index: int, pod: Json, maps: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    spec, metadata = pod["spec"], pod["metadata"]
    hostname = pod_set.hostnames[index] if index < len(pod_set.hostnames) else None
    yield from _compare("host name", hostname, spec.get("hostname"))
    if hostname and not metadata["name"].startswith(f"{hostname}-"):
        yield f"name begins with {hostname}- in the prediction"
    yield from _compare("subdomain", pod_set.subdomain and pod_set.subdomain.value, spec.get("subdomain"))
    theirs = {key: value for key, value in metadata.get("labels", {}).items() if not key.endswith(_OWN_LABELS)}
    ours = {key: value for key, value in pod_set.labels.items() if not key.endswith(_OWN_LABELS)}
    yield from _compare("labels", ours, theirs)
    yield from _compare("host network", pod_set.host_network, spec.get("hostNetwork", False))
    yield from _compare("volumes", _volumes(pod_set.spec.get("volumes")), _volumes(spec.get("volumes")))
    for predicted, real in (
        (pod_set.containers, spec["containers"]),
        (pod_set.init_containers, spec.get("initContainers", [])),
    ):
        yield from _compare("containers", [each.name for each in predicted], [each["name"] for each in real])
        for ours_, theirs_ in zip(predicted, real, strict=False):
            yield from _of_container(ours_, theirs_, pod, maps)


_OWN_LABELS = ("controller-uid", "job-completion-index")
"""Ends of labels that differ from pod to pod or from run to run; ranks are compared by themselves."""


def _of_container(predicted: Container, real: Json, pod: Json, maps: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    where = f"container {predicted.name}"
    yield from _compare(f"{where}: image", predicted.image, real["image"])
    env = environment(real, pod, maps)
    yield from _compare(f"{where}: variables", sorted(predicted.env), sorted(env))
    for name, variable in predicted.env.items():
        if variable.value is not None and name in env:
            yield from _compare(f"{where}: {name}", variable.value, env[name])
    for field_, ours in (("limits", predicted.limits), ("requests", predicted.requests)):
        theirs = real.get("resources", {}).get(field_, {})
        yield from _compare(
            f"{where}: {field_}", _amounts(ours), {name: _amount(value) for name, value in theirs.items()}
        )


def environment(container: Json, pod: Json, maps: Mapping[str, Mapping[str, str]]) -> dict[str, str | None]:
    """A container's variables as the kubelet would set them; None where the value lies elsewhere."""
    found: dict[str, str | None] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            prefix = source.get("prefix", "")
            found |= {prefix + key: value for key, value in maps.get(source["configMapRef"]["name"], {}).items()}
    for each in container.get("env", []):
        field_path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if field_path:
            found[each["name"]] = _field(pod, field_path)
        elif "valueFrom" in each:
            found[each["name"]] = None
        else:
            found[each["name"]] = _expanded(each.get("value", ""), found)
    return found


def _field(pod: Json, path: str) -> str | None:
    group, _, key = path.partition("['")
    if key:
        value = pod
        for step in group.split("."):
            value = value.get(step, {})
        return value.get(key.removesuffix("']"))
    value = pod
    for step in path.split("."):
        value = value.get(step, {})
    return value if isinstance(value, str) else None


def _expanded(text: str, known: Mapping[str, str | None]) -> str:
    for name, value in known.items():
        if value is not None:
            text = text.replace(f"$({name})", value)
    return text


def _of_services(workload: Workload, pod_set: PodSet, pods: Sequence[Json], client: Client) -> Iterator[str]:
    """The headless Service of the subdomain must give every rank its name, ready or not."""
    if pod_set.subdomain is None:
        return
    name, namespace = pod_set.subdomain.value, workload.object.namespace
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": name}}
    try:
        spec = client.get(service)["spec"]
    except Refused:
        yield f"Service {name} is not there"
        return
    yield from _compare(f"Service {name}: clusterIP", "None", spec.get("clusterIP"))
    addresses = {pod["status"].get("podIP"): pod["spec"].get("hostname") for pod in pods if pod["status"].get("podIP")}
    if not addresses:
        return
    deadline = time.monotonic() + 10
    while (names := _endpoint_names(client, namespace, name)) != addresses and time.monotonic() < deadline:
        time.sleep(0.1)
    yield from _compare(f"Service {name}: names", sorted(pod_set.hostnames), sorted(filter(None, names.values())))
    yield from _compare(f"Service {name}: addresses", sorted(addresses), sorted(names))


def _endpoint_names(client: Client, namespace: str, service: str) -> dict[str, str | None]:
    slices = client.list("discovery.k8s.io/v1", "EndpointSlice", namespace, f"kubernetes.io/service-name={service}")
    return {
        address: endpoint.get("hostname")
        for each in slices
        for endpoint in each.get("endpoints") or []
        for address in endpoint["addresses"]
    }


def _compare(what: str, predicted: Any, real: Any) -> Iterator[str]:
    if predicted != real:
        yield f"{what} is {predicted!r} in the prediction and {real!r} in the pod"


def _volumes(volumes: Sequence[Json] | None) -> dict[str, Any]:
    """Volumes by name, as far as the API server changes nothing about them."""
    found = {}
    for volume in volumes or ():
        kinds = {key: value for key, value in volume.items() if key != "name"}
        for key, value in kinds.items():
            if isinstance(value, dict) and "defaultMode" in value:
                kinds[key] = {name: each for name, each in value.items() if name != "defaultMode"}
        if "sizeLimit" in kinds.get("emptyDir", {}):
            kinds["emptyDir"] = {**kinds["emptyDir"], "sizeLimit": _amount(kinds["emptyDir"]["sizeLimit"])}
        found[volume["name"]] = kinds
    return found


def _amounts(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _amount(setting.value) for name, setting in settings.items()}


def _amount(value: Any) -> Any:
    from trainyard.quantity import quantity

    return quantity(value)
