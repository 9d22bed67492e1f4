"""What manifests say of the nodes that a job may land on: their labels and their taints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, sequence, strings, text

_REPELS = ("NoSchedule", "NoExecute")
_QUEUE = "kueue.x-k8s.io/queue-name"

Taint = tuple[Mapping[Any, Any], Spot]


def tainted_places(workload: Workload) -> list[list[Taint]]:
    """The taints of each kind of node that the job may land on.

    What the cluster's facts tolerate is what its GPU nodes are tainted with.
    """
    places = [_taints(item.at("spec", "taints"), mapping(item.data.get("spec"))) for item in _gpu_nodes(workload)]
    for flavor in _flavors(workload):
        spec = mapping(flavor.data.get("spec"))
        taints = _taints(flavor.at("spec", "nodeTaints"), {"taints": spec.get("nodeTaints")})
        tolerated = [item for _, item in entries(spec.get("tolerations"))]
        places.append(untolerated(taints, tolerated))
    if workload.cluster is not None and not places:
        spec = mapping(workload.cluster.data.get("spec"))
        facts = {"taints": spec.get("tolerations")}
        places.append(
            [taint for taint in _taints(workload.cluster.at("spec", "tolerations"), facts) if taint[0].get("key")]
        )
    return places


def _taints(spot: Spot, holder: Mapping[Any, Any]) -> list[Taint]:
    found = [(item, spot.below(index)) for index, item in entries(holder.get("taints"))]
    return [(item, place) for item, place in found if item.get("effect") in _REPELS]


def labelled_places(workload: Workload) -> list[tuple[Mapping[str, str], Spot]]:
    """The labels of each kind of node that the job may land on, and where they stand."""
    found: list[tuple[Mapping[str, str], Spot]] = [
        (strings(mapping(item.data.get("metadata")).get("labels")), item.at("metadata", "labels"))
        for item in workload.of_cluster("Node")
    ]
    for flavor in _flavors(workload):
        labels = strings(mapping(flavor.data.get("spec")).get("nodeLabels"))
        found.append((labels, flavor.at("spec", "nodeLabels")))
    if workload.cluster is not None and not found:
        labels = strings(mapping(workload.cluster.data.get("spec")).get("nodeSelector"))
        found.append((labels, workload.cluster.at("spec", "nodeSelector")))
    return found


def _gpu_nodes(workload: Workload) -> Iterator[Object]:
    for item in workload.of_cluster("Node"):
        allocatable = mapping(mapping(item.data.get("status")).get("allocatable"))
        labels = strings(mapping(item.data.get("metadata")).get("labels"))
        if any("gpu" in str(key) for key in (*allocatable, *labels)):
            yield item


def _flavors(workload: Workload) -> Sequence[Object]:
    """The flavors of the job's own queue; none where the way to them is not known whole."""
    labels = strings(mapping(workload.object.data.get("metadata")).get("labels"))
    local = next((item for item in workload.of_kind("LocalQueue") if item.name == labels.get(_QUEUE)), None)
    if local is None:
        return ()
    name = mapping(local.data.get("spec")).get("clusterQueue")
    queue = next((item for item in workload.of_cluster("ClusterQueue") if item.name == name), None)
    groups = entries(mapping(queue.data.get("spec") if queue else None).get("resourceGroups"))
    names = [
        flavor.get("name")
        for _, group in groups
        if any("gpu" in str(resource) for resource in sequence(group.get("coveredResources")))
        for _, flavor in entries(group.get("flavors"))
    ]
    found = [item for item in workload.of_cluster("ResourceFlavor") if item.name in names]
    return found if len(found) == len(names) else ()


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Mapping[Any, Any]]) -> list[Taint]:
    """The taints that none of the tolerations covers."""
    return [taint for taint in taints if not any(_tolerates(each, taint[0]) for each in tolerations)]


def _tolerates(toleration: Mapping[Any, Any], taint: Mapping[Any, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration.get("key") != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or text(toleration.get("value")) == text(taint.get("value"))


def shown(taint: Mapping[Any, Any]) -> str:
    """A taint as kubectl prints it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"
