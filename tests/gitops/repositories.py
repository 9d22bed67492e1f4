"""Small repositories: jobs, and clusters with and without Flux."""

from pathlib import Path

from trainyard.repository.listed import listing

JOB = """\
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata:
  name: {name}
spec:
  nodes: 2
"""
KUSTOMIZATION = """\
namespace: {team}
resources:
- ../../../base/torchrun # how it is launched
- ../../../clusters/{cluster}/facts # where it runs
patches:
- path: job.yaml
"""


def add_cluster(root: Path, name: str, *, flux: bool = True) -> None:
    """A cluster, with an empty list where Flux serves it."""
    (root / "clusters" / name / "facts").mkdir(parents=True)
    if flux:
        jobs = root / "clusters" / name / "flux" / "jobs"
        jobs.mkdir(parents=True)
        (jobs / "jobs.yaml").write_text(listing([]))


def add_job(root: Path, folder: str, cluster: str, text: str = KUSTOMIZATION) -> None:
    """A job folder; `text` is its kustomization.yaml."""
    path = root / folder
    path.mkdir(parents=True, exist_ok=True)
    (path / "job.yaml").write_text(JOB.format(name=path.name))
    (path / "kustomization.yaml").write_text(text.format(team=path.parent.name, cluster=cluster))
