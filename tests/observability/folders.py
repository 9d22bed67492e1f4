"""What kustomize makes of the folders of clusters and jobs."""

import functools
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

from tests.observability.catalogue import HOME

CLUSTERS = sorted(path.name for path in (HOME / "clusters").iterdir())
JOBS = sorted(str(file.parent.relative_to(HOME)) for file in (HOME / "jobs").glob("*/*/kustomization.yaml"))
RUN = "trainyard.dev/job"
"""The label of every pod of a run."""

Json = dict[str, Any]


@functools.cache
def rendered(folder: str) -> list[Json]:
    """The objects of a kustomization, from the stock kustomize."""
    done = subprocess.run([HOME / ".tools/bin/kustomize", "build", folder], cwd=HOME, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(folder: str, kind: str) -> list[Json]:
    return [item for item in rendered(folder) if item["kind"] == kind]


def one_of_kind(folder: str, kind: str) -> Json:
    (found,) = of_kind(folder, kind)
    return found


def pods(item: Any) -> Iterator[Json]:
    """Every pod template inside an object: a map with metadata and a spec that has containers."""
    if isinstance(item, dict):
        spec = item.get("spec")
        if isinstance(spec, dict) and "containers" in spec and "apiVersion" not in item:
            yield item
        for value in item.values():
            yield from pods(value)
    if isinstance(item, list):
        for value in item:
            yield from pods(value)
