"""One Workload for each training job of a unit, whatever its kind."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from trainyard.objects.unit import Unit
from trainyard.workload.adapters import PLAIN, adapter
from trainyard.workload.made import MadeObject
from trainyard.workload.model import Workload
from trainyard.workload.templates import trains


def workloads(unit: Unit) -> list[Workload]:
    """A Workload for each job object of the unit, in rendered order.

    Never raises for what manifests hold: a part of the wrong type counts as absent, since schemas report it.
    """
    return [each for each in _of_all(unit) if each.object.kind not in PLAIN or any(map(trains, each.pod_sets))]


def companions(workload: Workload) -> Iterator[Workload]:
    """The other jobs of its namespace that are rendered with a job."""
    for item in workload.objects:
        kind = adapter(item)
        made = isinstance(item, MadeObject)
        if kind is not None and not made and item != workload.object and item.namespace == workload.object.namespace:
            yield replace(workload, object=item, pod_sets=kind.pod_sets(item, workload.objects))


def bystanders(unit: Unit) -> list[Workload]:
    """The pods of Deployments and their like that train nothing, in the same shape."""
    if not any(item.kind in PLAIN for item in unit.objects):
        return []
    return [each for each in _of_all(unit) if each.object.kind in PLAIN and not any(map(trains, each.pod_sets))]


@lru_cache(maxsize=1)
def _of_all(unit: Unit) -> tuple[Workload, ...]:
    """Rules of several families ask one after the other for the same unit; one unit is in memory at a time."""
    return tuple(_made_of(unit))


def _made_of(unit: Unit) -> Iterator[Workload]:
    beside = (*unit.objects, *(unit.platform or ()))
    for item in unit.objects:
        kind = adapter(item)
        if kind is None:
            continue
        objects = (*beside, *kind.made(item, beside))
        yield Workload(
            object=item,
            pod_sets=kind.pod_sets(item, objects),
            objects=objects,
            platform=unit.platform,
            training_job=unit.fact("TrainingJob") if unit.is_job else None,
            cluster=unit.fact("Cluster"),
            fabric=unit.fact("Fabric"),
            own=unit.own,
        )
