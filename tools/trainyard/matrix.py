"""docs/matrix.md: every way to run a job on every cluster, and what proves it."""

import re
import sys
from pathlib import Path

from trainyard.frozen import dataclass
from trainyard.generated import update

HOME = Path(__file__).resolve().parents[2]
PAGE = HOME / "docs" / "matrix.md"


@dataclass(frozen=True, slots=True)
class Way:
    """One base: what it makes, and whose controller runs that."""

    base: str
    makes: str
    controller: str


WAYS = (
    Way("torchrun", "Indexed Job", "Kubernetes' Job controller"),
    Way("deepspeed", "Indexed Job, ZeRO policy", "Kubernetes' Job controller"),
    Way("jobset", "JobSet", "JobSet"),
    Way("trainjob", "TrainJob", "Kubeflow Trainer"),
    Way("pytorchjob", "PyTorchJob", "Training Operator"),
    Way("tfjob", "TFJob", "Training Operator"),
    Way("mpijob", "MPIJob", "MPI Operator"),
    Way("rayjob", "RayJob", "KubeRay"),
)

HEAD = """\
# Ways to run a job, and where

Written by `tools/update-docs`. Each cell is a job that the tests make from `jobs/research/gpt2-124m` by changing one
line of its `kustomization.yaml` for the base and one for the cluster. It renders to the same bytes with three versions
of kustomize, lints without an error or a warning against strict schemas (`tests/bases/test_matrix.py`), and a real API
server takes it (`tests/controlplane/test_matrix.py`). The controllers run those below `jobs/` (`tests/controlplane/`).
"""


def clusters(home: Path = HOME) -> dict[str, str]:
    """The fabric of each cluster."""
    found = {}
    for file in sorted(home.glob("clusters/*/facts/kustomization.yaml")):
        fabric = re.search(r"overlays/(\S+)", file.read_text())
        if fabric:
            found[file.parent.parent.name] = fabric[1]
    return found


def page() -> str:
    """The whole page."""
    places = clusters()
    heads = [f"{name} ({fabric})" for name, fabric in places.items()]
    lines = [HEAD, f"| base | makes | run by | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for way in WAYS:
        cells = " | ".join("yes" for _ in places)
        lines.append(f"| [{way.base}](kinds/{way.base}.md) | {way.makes} | {way.controller} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "base/ and clusters/")


if __name__ == "__main__":
    sys.exit(main())
