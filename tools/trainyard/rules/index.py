"""Every rule, a module a family, and what it finds."""

from collections.abc import Iterator
from importlib import import_module

from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules.registry import Problem, Rule, registered
from trainyard.workload.model import Workload
from trainyard.workload.of_unit import bystanders

FAMILIES = (
    "access",
    "allowed",
    "amounts",
    "batch",
    "capacity",
    "classes",
    "clusters",
    "contract",
    "coverage",
    "deepspeed",
    "downloads",
    "exec_form",
    "exit_codes",
    "fit",
    "gang",
    "gang_members",
    "gitops",
    "host_network",
    "hugepages",
    "images",
    "isolation",
    "joblimits",
    "launchers",
    "memory",
    "metrics",
    "monitoring",
    "mpi",
    "names",
    "nccl",
    "network",
    "operators",
    "placement",
    "podsecurity",
    "presets",
    "probes",
    "queues",
    "ray",
    "rayjobs",
    "rbac",
    "references",
    "rendezvous",
    "resources",
    "restarts",
    "scraping",
    "second_networks",
    "secrets",
    "server",
    "service_ports",
    "shared_gpus",
    "sidecars",
    "storage",
    "written",
)
"""Every module that declares rules; a module that is not listed is not run."""


STAGES = (
    "findings.suppress",
    "gitops.edited",
    "gitops.fetched",
    "gitops.room",
    "gitops.synced",
    "kustomize.contract",
    "kustomize.deprecated",
    "kustomize.folder",
    "kustomize.jobfile",
    "kustomize.untaken",
    "lint.result",
    "rehearse.rules",
    "schemas.schema",
)
"""Modules of the pipeline that raise findings themselves and declare the pages for them."""


def all_rules() -> dict[str, Rule]:
    """Every rule by id, sorted."""
    for family in FAMILIES:
        import_module(f"trainyard.rules.{family}")
    for stage in STAGES:
        import_module(f"trainyard.{stage}")
    return registered()


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
