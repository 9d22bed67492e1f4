"""What the controllers will really run: one Workload for each training job, whatever its kind."""

from trainyard.unit import Unit
from trainyard.workload.adapters import PLAIN, adapter
from trainyard.workload.model import Workload


def workloads(unit: Unit) -> list[Workload]:
    """A Workload for each job object of the unit, in rendered order.

    Never raises for what manifests hold: a part of the wrong type counts as absent, since schemas report it.
    """
    found = []
    beside = (*unit.objects, *(unit.platform or ()))
    for item in unit.objects:
        kind = adapter(item)
        if kind is None:
            continue
        objects = (*beside, *kind.made(item, beside))
        pod_sets = kind.pod_sets(item, objects)
        if not pod_sets and item.kind in PLAIN:
            continue
        found.append(
            Workload(
                object=item,
                pod_sets=pod_sets,
                objects=objects,
                platform=unit.platform,
                training_job=unit.fact("TrainingJob") if unit.is_job else None,
                cluster=unit.fact("Cluster"),
                fabric=unit.fact("Fabric"),
            )
        )
    return found
