"""Every rule, and what it finds."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules import FAMILIES
from trainyard.rules.registry import Problem, Rule, registered
from trainyard.workload.model import Workload
from trainyard.workload.of_unit import bystanders

STAGES = {
    "findings.suppress": ("SUP",),
    "gitops.edited": ("GIT",),
    "gitops.fetched": ("GIT",),
    "gitops.capacity": ("RES",),
    "gitops.synced": ("GIT",),
    "kustomize.contract": ("CTR",),
    "kustomize.deprecated": ("KUS",),
    "kustomize.folder": ("CTR",),
    "kustomize.jobfile": ("SCH",),
    "kustomize.unused_values": ("CTR",),
    "lint.result": ("INP",),
    "rehearse.rules": ("RHS",),
    "schemas.schema": ("SCH",),
    "schemas.validation": ("SCH",),
}
"""Modules of the pipeline that raise findings themselves and declare the pages for them, to the families of those."""


def all_rules() -> dict[str, Rule]:
    """Every rule by id, sorted."""
    for family in FAMILIES.values():
        _read(f"trainyard.rules.{family}")
    for stage in STAGES:
        import_module(f"trainyard.{stage}")
    return registered()


def _read(family: str) -> None:
    """Import the module of a family, or every module of its folder."""
    found = import_module(family)
    for module in iter_modules(getattr(found, "__path__", ())):
        import_module(f"{family}.{module.name}")


def problems(rule: Rule, unit: Unit, workloads: tuple[Workload, ...]) -> Iterator[Problem]:
    """What one rule finds in a unit, whose training jobs are `workloads`."""
    if rule.needs is Workload:
        for workload in (*workloads, *bystanders(unit)) if rule.every_pod else workloads:
            yield from rule.check(workload)
    elif rule.needs is Object:
        for obj in unit.objects:
            yield from rule.check(obj)
    else:
        yield from rule.check(unit)
