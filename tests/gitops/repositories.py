"""Small repositories: jobs, and clusters with and without Flux."""

from pathlib import Path

from trainyard.listed import listing

JOB = """\
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata:
  name: {name}
spec:
  cluster: {cluster}
  nodes: 2
"""


def add_cluster(root: Path, name: str, *, flux: bool = True) -> None:
    """A cluster, with an empty list where Flux serves it."""
    (root / "clusters" / name / "facts").mkdir(parents=True)
    if flux:
        jobs = root / "clusters" / name / "flux" / "jobs"
        jobs.mkdir(parents=True)
        (jobs / "jobs.yaml").write_text(listing([]))


def add_job(root: Path, folder: str, cluster: str, text: str = JOB) -> Path:
    """A job folder's job.yaml."""
    file = root / folder / "job.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.format(name=file.parent.name, cluster=cluster))
    return file
