"""A job made up for these tests, rendered on a base and a cluster of this repository, and held against what is kept."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import recorded
from tests.copies import copy_parts
from tests.planted.checkout import Checkout
from trainyard.kustomize.render import render

HOME = Path(__file__).resolve().parents[2]
SNAPSHOTS = Path(__file__).parent / "snapshots"
CLUSTERS = ("gpu-east", "lab-west")
OLD = ("5.0.3", "5.4.3")
JOB = "jobs/research/whale-song"
MOVED = "jobs/research/gpt2-124m"

_JOB = """\
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata:
  name: whale-song
spec:
  nodes: 3
  gpusPerNode: 8
  batch:
    micro: 4
    accumulation: 2
    global: 192
  rendezvousPort: 29555
  metricsPort: 9191
  backoffLimit: 7
  dataset:
    claim: datasets
    path: /data/whales
  checkpoint:
    size: 300Gi
  env:
    OMP_NUM_THREADS: "11"
"""

_KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: research
resources:
- ../../../base/{base}
- ../../../clusters/{cluster}/facts
{components}patches:
- path: job.yaml
  target:
    kind: TrainingJob
  options:
    allowNameChange: true
transformers:
- ../../../base/wiring
"""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one folder builds."""

    yaml: str
    objects: list[Any]

    def one(self, kind: str) -> Any:
        """The only object of a kind."""
        [found] = [item for item in self.objects if item["kind"] == kind]
        return found


def copy(root: Path) -> Path:
    """A copy of all that jobs are made of, below `root`."""
    copy_parts(root, "base", "overlays", "clusters", MOVED)
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)
    return root


def write_job(root: Path, base: str, cluster: str, *, components: tuple[str, ...] = (), spec: str = "") -> None:
    """The made-up job; `spec` is added to its job.yaml, `components` to its kustomization, as folders of base."""
    listed = "".join(f"- ../../../base/{component}\n" for component in components)
    folder = root / JOB
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(_JOB + spec)
    (folder / "kustomization.yaml").write_text(
        _KUSTOMIZATION.format(base=base, cluster=cluster, components=f"components:\n{listed}" if components else "")
    )


def rendered(root: Path, folder: str = JOB) -> Rendered:
    """A folder, as the linter renders it."""
    [rendering] = render(root, [folder], with_yaml=True)
    assert rendering.error == ""
    return Rendered(rendering.yaml, rendering.objects)


def stock(root: Path, program: Path, folder: str = JOB) -> str:
    """What a kustomize binary prints."""
    return subprocess.run([program, "build", folder], cwd=root, check=True, capture_output=True, text=True).stdout


def hold(name: str, text: str) -> None:
    """A render is as recorded in snapshots/."""
    recorded.hold(SNAPSHOTS / f"{name}.yaml", text)


def renders_whole(root: Path, base: str, cluster: str) -> Rendered:
    """The made-up job, whole: as recorded, to the bytes of stock kustomize, and with no default name left in it."""
    write_job(root, base, cluster)
    found = rendered(root)
    hold(f"{base}-{cluster}", found.yaml)
    assert stock(root, HOME / ".tools" / "bin" / "kustomize") == found.yaml
    assert "training-job" not in found.yaml
    return found


def renders_as_recorded_by(root: Path, version: str, base: str, cluster: str) -> None:
    """An old kustomize gives the recorded bytes."""
    write_job(root, base, cluster)
    program = HOME / ".tools" / "old" / f"kustomize-{version}"
    assert stock(root, program) == (SNAPSHOTS / f"{base}-{cluster}.yaml").read_text()


def moves_by_one_line(root: Path, base: str) -> None:
    """The repository's own job of base/torchrun is clean on another base, with nothing but the base's name changed."""
    checkout = Checkout(root)
    checkout.replace(f"{MOVED}/kustomization.yaml", "base/torchrun", f"base/{base}")
    code, document = checkout.lint(MOVED)
    assert document["findings"] == []
    assert code == 0
