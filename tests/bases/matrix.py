"""Every way to run a job on every cluster: gpt2-124m with one line changed for the base and one for the cluster."""

import shutil
import subprocess
from pathlib import Path

from trainyard.matrix import WAYS, clusters

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "jobs/research/gpt2-124m"


def repository(root: Path) -> list[str]:
    """A repository below `root` with a job for each base on each cluster. Returns the folders of the jobs."""
    for folder in ("base", "overlays", "clusters"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)
    return [job_on(root, way.base, cluster) for way in WAYS for cluster in clusters(REPOSITORY)]


def job_on(root: Path, base: str, cluster: str) -> str:
    """A job below jobs/research, called after where it runs and how."""
    name = f"{base}-{cluster}"
    folder = root / "jobs/research" / name
    folder.mkdir(parents=True)
    job = (SOURCE / "job.yaml").read_text()
    (folder / "job.yaml").write_text(
        replaced(job, "  name: gpt2-124m\n", f"  name: {name}\n").replace("  cluster: lab-west\n", "")
    )
    kustomization = (SOURCE / "kustomization.yaml").read_text()
    kustomization = replaced(kustomization, "- ../../../base/torchrun ", f"- ../../../base/{base} ")
    kustomization = replaced(
        kustomization, "- ../../../clusters/lab-west/facts ", f"- ../../../clusters/{cluster}/facts "
    )
    (folder / "kustomization.yaml").write_text(kustomization)
    return f"jobs/research/{name}"


def replaced(text: str, old: str, new: str) -> str:
    """The text with one piece of it changed, which must stand there once."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return text.replace(old, new)
