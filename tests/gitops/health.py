"""The health checks that Argo CD and Flux are given, run by the engines that they run them with (tools/go/health)."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from tests.gitops.folders import HOME, Json, objects, of_kind

PROGRAM = HOME / ".tools" / "health" / "health"
PREFIX = "resource.customizations.health."
CLUSTER = next(
    file.parent.parent.parent.name
    for file in HOME.glob("clusters/*/flux/jobs/jobs.yaml")
    if "\nkind" in file.read_text()
)
"""A cluster that has jobs."""


def argo_cd_checks() -> dict[str, str]:
    """The scripts in argocd-cm by group_kind."""
    (settings,) = of_kind(objects(CLUSTER, "argocd"), "ConfigMap")
    return {key.removeprefix(PREFIX): value for key, value in settings["data"].items() if key.startswith(PREFIX)}


def flux_checks() -> dict[str, Json]:
    """The expressions of a job's Kustomization by group_kind; group_ where they hold for a whole group."""
    job = of_kind(objects(CLUSTER, "flux/jobs"), "Kustomization")[0]
    return {f"{group_of(each)}_{each.get('kind', '')}": each for each in job["spec"]["healthCheckExprs"]}


def group_of(item: Json) -> str:
    return str(item["apiVersion"]).rpartition("/")[0]


def argo_cd_says(items: Sequence[Json]) -> list[Json]:
    """What Argo CD calls each object, and why."""
    scripts = argo_cd_checks()
    return asked(
        [{"engine": "lua", "script": scripts[f"{group_of(item)}_{item['kind']}"], "object": item} for item in items]
    )


def flux_says(items: Sequence[Json]) -> list[Json]:
    """What Flux calls each object. A check of a kind goes before one of its whole group."""
    checks = flux_checks()
    found = [checks.get(f"{group_of(item)}_{item['kind']}") or checks[f"{group_of(item)}_"] for item in items]
    return asked(
        [{"engine": "cel", "expressions": check, "object": item} for check, item in zip(found, items, strict=True)]
    )


def asked(requests: Sequence[Json]) -> list[Json]:
    """The answers of the engines. They are built by `python3 tools/bootstrap.py judges`."""
    sent = "\n".join(json.dumps(request) for request in requests)
    done = subprocess.run([PROGRAM], input=sent, capture_output=True, text=True, check=True)
    answers: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests)
    return answers
