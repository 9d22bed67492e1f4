"""Where objects of KubeRay hold the spec of a Ray cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import items, part, word

_PLACES: Mapping[str, tuple[str, ...]] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
    "RayCronJob": ("spec", "jobTemplate", "rayClusterSpec"),
}


def cluster_spec(item: Object) -> Spot | None:
    """The spec of the Ray cluster that an object is or makes; None where it holds none."""
    path = _PLACES.get(item.kind) if item.group == "ray.io" else None
    if path is None or not part(item.at(*path)):
        return None
    return item.at(*path)


def job_spec(item: Object) -> Spot | None:
    """The spec of the RayJob that an object is or makes."""
    if item.group != "ray.io":
        return None
    return {"RayJob": item.at("spec"), "RayCronJob": item.at("spec", "jobTemplate")}.get(item.kind)


def worker_groups(cluster: Spot) -> Iterator[tuple[Spot, Mapping[Any, Any]]]:
    """The worker groups of a cluster."""
    return items(cluster.below("workerGroupSpecs"))


def all_groups(cluster: Spot) -> Iterator[tuple[str, Spot]]:
    """The head and the worker groups, each with what it is called."""
    yield "the head", cluster.below("headGroupSpec")
    for spot, _ in worker_groups(cluster):
        yield f"group {word(spot.below('groupName'))}", spot


def head_variable(cluster: Spot, name: str) -> tuple[Spot, str] | None:
    """A variable of the head's Ray container, and its value."""
    env = cluster.below("headGroupSpec", "template", "spec", "containers", 0, "env")
    found = ((spot, word(spot.below("value"))) for spot, data in items(env) if data.get("name") == name)
    return next(found, None)
