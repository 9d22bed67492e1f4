"""Whether the nodes are tuned and whole, and what they are: hardware, driver and topology of the fingerprint."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from trainyard.controlplane.client import Client, Refused
from trainyard.errors import Fault

Json = dict[str, Any]

TUNING = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "node-tuning", "name": "node-tuning"}}
TUNING_SECONDS = 1200.0
GPU = "nvidia.com/gpu"
HARDWARE = {
    "gpu": "nvidia.com/gpu.product",
    "gpus a node": "nvidia.com/gpu.count",
    "gpu memory MiB": "nvidia.com/gpu.memory",
    "machine": "node.kubernetes.io/instance-type",
    "mig": "nvidia.com/mig.strategy",
}
"""Labels of GPU feature discovery and of clouds."""
DRIVER = {"nvidia": "nvidia.com/cuda.driver-version.full", "cuda": "nvidia.com/cuda.runtime-version.full"}
TOPOLOGY = ("trainyard.dev/rack", "trainyard.dev/block", "topology.kubernetes.io/zone")
"""From the narrowest; the first that nodes carry is taken."""
GOOD_IF_TRUE = "Ready"


def await_tuning(client: Client, seconds: float = TUNING_SECONDS) -> int:
    """Waits until every node is tuned; returns on how many nodes. Fault where that takes too long."""
    status: Json = {}

    def tuned() -> bool:
        nonlocal status
        found = client.get(TUNING)
        status = found.get("status", {})
        seen = status.get("observedGeneration") == found["metadata"].get("generation")
        wanted = status.get("desiredNumberScheduled", 0)
        return bool(seen and 0 < wanted == status.get("numberReady") == status.get("updatedNumberScheduled"))

    try:
        client.until("tuned nodes", tuned, seconds)
    except Refused as refused:
        raise Fault(f"daemonset node-tuning cannot be read: {refused}") from None
    return int(status["numberReady"])


def benchmark_nodes(client: Client, labels: Mapping[str, str]) -> list[Json]:
    """The cluster's nodes that take training pods, by name; those that are cordoned are left out."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    nodes = [node for node in client.list("v1", "Node", selector=selector) if not node["spec"].get("unschedulable")]
    return sorted(nodes, key=lambda node: node["metadata"]["name"])


def faults(nodes: Iterable[Json], gpus: int) -> list[str]:
    """What is wrong with nodes, a line each: a benchmark on them would measure the fault."""
    lines = []
    for node in nodes:
        name, status = node["metadata"]["name"], node.get("status", {})
        there = int(status.get("allocatable", {}).get(GPU, 0))
        if there != gpus:
            lines.append(f"{name}: {there} of {gpus} GPUs can be had")
        for condition in status.get("conditions", []):
            right = "True" if condition["type"] == GOOD_IF_TRUE else "False"
            if condition["status"] != right:
                lines.append(f"{name}: {condition['type']} is {condition['status']}: {condition.get('message', '')}")
    return lines


def fingerprint(nodes: list[Json]) -> dict[str, dict[str, str]]:
    """Hardware, driver and topology as labels and the kubelets say them."""
    info = {
        "kernel": "kernelVersion",
        "system": "osImage",
        "kubelet": "kubeletVersion",
        "runtime": "containerRuntimeVersion",
    }
    hardware = {name: _labelled(nodes, label) for name, label in HARDWARE.items()}
    hardware["nodes"] = str(len(nodes))
    driver = {name: _labelled(nodes, label) for name, label in DRIVER.items()}
    driver |= {name: _all(node["status"].get("nodeInfo", {}).get(key) for node in nodes) for name, key in info.items()}
    return {"hardware": hardware, "driver": driver, "topology": _topology(nodes)}


def _topology(nodes: list[Json]) -> dict[str, str]:
    for label in TOPOLOGY:
        found = Counter(node["metadata"].get("labels", {}).get(label) for node in nodes)
        if set(found) - {None}:
            return {
                f"{label} {place or 'not stated'}": f"{count} nodes" for place, count in sorted(found.items(), key=str)
            }
    return {"nodes": "no labels of racks, blocks or zones"}


def _labelled(nodes: list[Json], label: str) -> str:
    return _all(node["metadata"].get("labels", {}).get(label) for node in nodes)


def _all(values: Iterable[str | None]) -> str:
    """One value where nodes agree, each with its number of nodes where they do not."""
    found = Counter(value or "not stated" for value in values)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{value} ({count} nodes)" for value, count in sorted(found.items()))
