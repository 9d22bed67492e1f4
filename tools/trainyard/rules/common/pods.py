"""What the pods of a workload can reach: NICs, the node, memory, files."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from trainyard.objects.objects import Spot
from trainyard.rules.common.volumes import mounts
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.plain import entries, mapping, sequence, strings
from trainyard.yaml.fieldpath import lookup

EFA = "vpc.amazonaws.com/efa"
_RDMA = re.compile(r"rdma/|.*(rdma|roce|infiniband|[/_-]hca|ibdev)|nvidia\.com/hostdev\Z", re.IGNORECASE)
_ORDINARY = re.compile(r"(cpu|memory|pods|ephemeral-storage|hugepages-.*|.*/gpu|nvidia\.com/mig-.*|attachable-.*)\Z")
_NETWORK = re.compile(r"cni|network|interface|spidernet|macvlan|nic(s|\b)", re.IGNORECASE)
_LOCK = frozenset({"IPC_LOCK", "SYS_RESOURCE", "ALL"})
_NO_NVLINK = re.compile(r"rtx|geforce|quadro|titan|-t4|-l4|l40|-a10\b|-a16|-a2\b|tesla-[tpm]", re.IGNORECASE)


def is_rdma(resource: str) -> bool:
    """Whether a resource is an RDMA device, EFA aside."""
    return _RDMA.match(resource) is not None


def rdma_devices(workload: Workload) -> dict[str, Setting]:
    """RDMA devices that pods request, by resource name; EFA among them."""
    return {
        name: limit
        for pod_set in workload.pod_sets
        for container in pod_set.containers
        for name, limit in container.limits.items()
        if (name == EFA or is_rdma(name)) and str(limit.value) != "0"
    }


def may_reach_rdma(workload: Workload) -> bool:
    """True where some pod requests a device that may be a NIC, or may see the node's."""
    return any(
        sees_the_node(pod_set)
        or has_more_networks(pod_set)
        or any(not _ORDINARY.match(name) for container in pod_set.containers for name in container.limits)
        for pod_set in workload.pod_sets
    )


def sees_the_node(pod_set: PodSet) -> bool:
    """Whether the pods use the node's network, are privileged, or mount its devices."""
    if pod_set.host_network or any(security(container).get("privileged") is True for container in pod_set.containers):
        return True
    paths = (mapping(volume.get("hostPath")).get("path") for _, volume in entries(pod_set.spec.get("volumes")))
    return any(str(path).startswith("/dev") for path in paths)


def has_more_networks(pod_set: PodSet) -> bool:
    """Whether the pods may have interfaces beside the one that every pod has."""
    return bool(pod_set.spec.get("resourceClaims")) or any(_NETWORK.search(key) for key in annotations(pod_set))


def annotations(pod_set: PodSet) -> Mapping[str, str]:
    """The annotations that the template gives the pods."""
    try:
        metadata = lookup(pod_set.template.object.data, (*pod_set.template.path, "metadata"))
    except KeyError:
        return {}
    return strings(mapping(metadata).get("annotations"))


def security(container: Container) -> Mapping[object, object]:
    """The container's securityContext."""
    return mapping(container.data.get("securityContext"))


def _capabilities(container: Container) -> frozenset[str]:
    """The capabilities that are added, without CAP_."""
    added = sequence(mapping(security(container).get("capabilities")).get("add"))
    return frozenset(name.removeprefix("CAP_") for name in added if isinstance(name, str))


def may_lock(container: Container) -> bool:
    """Whether the container may lock memory for a device."""
    return security(container).get("privileged") is True or bool(_capabilities(container) & _LOCK)


def may_place_memory(pod_set: PodSet, container: Container) -> bool:
    """Whether the container may make the NUMA calls that the usual seccomp profile blocks."""
    own, pods = security(container), mapping(pod_set.spec.get("securityContext"))
    profile = mapping(own.get("seccompProfile") or pods.get("seccompProfile")).get("type")
    return own.get("privileged") is True or "SYS_NICE" in _capabilities(container) or profile == "Unconfined"


def single_pod(workload: Workload) -> bool:
    """Whether the job is certainly one pod."""
    return workload.pods is not None and workload.pods <= 1


def gpus(workload: Workload) -> int | None:
    """GPUs of all pods, which is ranks as a rule; None where a count is not known."""
    total = 0
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is None or not main.gpus:
            continue
        if pod_set.count.value is None:
            return None
        total += pod_set.count.value * main.gpus
    return total


def gpu_models(workload: Workload) -> str:
    """What manifests and the cluster's facts say of the GPU, in one text; empty where they say nothing."""
    node = mapping(mapping(workload.cluster.data.get("spec") if workload.cluster else None).get("node"))
    selected = [text for pod_set in workload.pod_sets for text in strings(pod_set.spec.get("nodeSelector")).values()]
    return " ".join([*selected, str(node.get("gpu") or "")]).strip()


def has_no_nvlink(workload: Workload) -> bool:
    """Whether the GPUs are known to be of a kind without NVLink."""
    return _NO_NVLINK.search(gpu_models(workload)) is not None


def mount_of(pod_set: PodSet, container: Container, path: str) -> Spot | None:
    """The volumeMount that a path inside the container lies on; None where it lies in the image."""
    wanted = PurePosixPath(path)
    found = [each for each in mounts(pod_set) if each.container is container and wanted.is_relative_to(each.path)]
    return max(found, key=lambda each: len(each.path.parts)).spot if found else None


def outlives_the_pod(pod_set: PodSet, container: Container, path: str) -> bool:
    """Whether what is written to a path inside the container is still there when the pod is gone."""
    wanted = PurePosixPath(path)
    found = [each for each in mounts(pod_set) if each.container is container and wanted.is_relative_to(each.path)]
    return bool(found) and max(found, key=lambda each: len(each.path.parts)).volume.outlives_pod


def training_containers_without(workload: Workload, device: str = "") -> tuple[Spot, ...]:
    """The `resources` of the containers that train and do not request a device."""
    mains = (pod_set.main() for pod_set in workload.pod_sets)
    lacking = (main for main in mains if main and main.gpus and device not in main.limits)
    return tuple(main.spot.below("resources", label="not requested here") for main in lacking)
