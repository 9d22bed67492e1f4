"""What rules ask of a TrainingJob: which fields its own job.yaml holds, and whether its program reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.plan.job import PROGRAMS
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping
from trainyard.yaml.fieldpath import lookup


def own_first(spots: Sequence[Spot], own: Mapping[str, Any]) -> tuple[Spot, tuple[Spot, ...]]:
    """The field to point at of several that contradict each other, and the others.

    It is the first that the job's own file, `own`, holds: a default of the base is right for other jobs.
    """
    first = next((spot for spot in spots if _holds(own, spot)), spots[0])
    return first, tuple(spot for spot in spots if spot is not first)


def spec_of(workload: Workload) -> Mapping[str, Any]:
    """The spec of the workload's TrainingJob; empty where it has none."""
    return mapping(workload.training_job.data.get("spec")) if workload.training_job is not None else {}


def sets(own: Mapping[str, Any], *path: str) -> bool:
    """Whether the job's own file sets a field below `spec`."""
    try:
        return lookup(own, ("spec", *path)) is not None
    except (KeyError, TypeError):
        return False


def runs_the_trainer(job: Object) -> bool:
    """Whether the job's command starts the trainer of this repository, and not its measurement of a fabric."""
    return module_of(job) in PROGRAMS


def module_of(job: Object) -> str | None:
    """The module that the job's command starts, as in `python -m trainer`; None for another program."""
    command = mapping(job.data.get("spec")).get("command", ["-m", "trainer"])
    if not isinstance(command, list) or "-m" not in command:
        return None
    module = next(iter(command[command.index("-m") + 1 :]), None)
    return module if isinstance(module, str) else None


def _holds(own: Mapping[str, Any], spot: Spot) -> bool:
    try:
        lookup(own, spot.path)
    except (KeyError, TypeError):
        return False
    return True
