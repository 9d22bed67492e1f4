"""The Argo CD and Flux folders of the clusters, rendered."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit

HOME = Path(__file__).resolve().parents[2]
CLUSTERS = sorted(path.name for path in (HOME / "clusters").iterdir())
KINDS = ("argocd", "flux", "flux/jobs", "flux/teams")

Json = dict[str, Any]


def built(folder: str, program: str = "bin/kustomize") -> str:
    """What `kustomize build` prints."""
    command: list[str | Path] = [HOME / ".tools" / program, "build", folder]
    text: str = subprocess.run(command, cwd=HOME, check=True, capture_output=True, text=True).stdout
    return text


@cache
def unit_of(folder: str) -> Unit:
    """A folder as it renders."""
    documents = yaml.safe_load_all(built(folder))
    return Unit(folder, False, tuple(Object.of(document, index) for index, document in enumerate(documents)))


def objects(cluster: str, kind: str) -> tuple[Object, ...]:
    """What a cluster's folder of that kind (argocd, flux, flux/jobs) applies."""
    return unit_of(f"clusters/{cluster}/{kind}").objects


def of_kind(items: Iterable[Object], kind: str) -> list[Json]:
    return [item.data for item in items if item.kind == kind]


def teams(cluster: str) -> list[str]:
    """The teams of a cluster: their folders below its platform hold a quota each."""
    return sorted(path.parent.name for path in (HOME / "clusters" / cluster / "platform").glob("*/resource-quota.yaml"))
