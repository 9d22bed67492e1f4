"""Every way to run a job on every cluster: gpt2-124m with one line changed for the base and one for the cluster."""

import shutil
import subprocess
from pathlib import Path

from tests.said import said
from trainyard.docs.matrix import WAYS, clusters
from trainyard.repository import list_command

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "jobs/research/gpt2-124m"


def repository(root: Path) -> list[str]:
    """A repository below `root` with a job for each base on each cluster. Returns the folders of the jobs."""
    without_jobs(root)
    folders = [
        job_on(root, way.base, cluster, f"{way.base}-{cluster}") for way in WAYS for cluster in clusters(REPOSITORY)
    ]
    list_jobs(root)
    return folders


def without_jobs(root: Path) -> None:
    """All that jobs are made of, in a Git repository below `root`."""
    for folder in ("base", "overlays", "clusters"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)


def job_on(root: Path, base: str, cluster: str, name: str) -> str:
    """A job of that name below jobs/research. Returns its folder."""
    folder = root / "jobs/research" / name
    folder.mkdir(parents=True)
    job = (SOURCE / "job.yaml").read_text()
    (folder / "job.yaml").write_text(replaced(job, "  name: gpt2-124m\n", f"  name: {name}\n"))
    shutil.copy(SOURCE / "kustomization.yaml", folder)
    replace_in(folder, base_line("torchrun"), base_line(base))
    replace_in(folder, cluster_line("lab-west"), cluster_line(cluster))
    return f"jobs/research/{name}"


def base_line(base: str) -> str:
    """The line by which a job takes a base."""
    return f"- ../../../base/{base} # how it is launched\n"


def cluster_line(cluster: str) -> str:
    """The line by which a job takes a cluster."""
    return f"- ../../../clusters/{cluster}/facts # where it runs, and so on what fabric\n"


def replace_in(folder: Path, old: str, new: str) -> None:
    """Change a line of a job's kustomization.yaml."""
    file = folder / "kustomization.yaml"
    file.write_text(replaced(file.read_text(), old, new))


def replaced(text: str, old: str, new: str) -> str:
    """The text with one piece of it changed, which must stand there once."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return text.replace(old, new)


def list_jobs(root: Path) -> None:
    """Run tools/list-jobs."""
    told = said(list_command.main, "--root", root)
    assert told.code == 0, told.errors
