"""A job moves to another launcher, or to another cluster, by one line; Argo CD, list-jobs and the linter follow."""

import contextlib
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bases.matrix import REPOSITORY, base_line, cluster_line, job_on, list_jobs, replace_in, without_jobs
from tests.gitops.folders import objects, of_kind
from tests.gitops.generator import applications
from tests.said import said
from trainyard.docs.matrix import clusters
from trainyard.lint.cli import main
from trainyard.repository.listed import all_jobs
from trainyard.yaml.sources import Sources

BASE, CLUSTER = "torchrun", "lab-west"
BASES = [BASE, "deepspeed", "mpijob", "pytorchjob", "trainjob", "jobset", "rayjob"]
CLUSTERS = list(clusters(REPOSITORY))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """gpt2-124m once for each move from and to, committed before it moved: the cluster on which each job ends.

    The working directory is their repository.
    """
    root = tmp_path_factory.mktemp("move")
    without_jobs(root)
    moves = {f"{old}-to-{new}": (base_line(old), base_line(new)) for old, new in itertools.permutations(BASES, 2)}
    ends = {job_on(root, name.split("-")[0], CLUSTER, name): CLUSTER for name in moves}
    for old, new in itertools.permutations(CLUSTERS, 2):
        name = f"{old}-to-{new}"
        moves[name] = cluster_line(old), cluster_line(new)
        ends[job_on(root, BASE, old, name)] = new
    git(root, "add", "jobs")
    git(root, "-c", "user.name=researcher", "-c", "user.email=researcher", "commit", "--quiet", "--message=before")
    for name, (line, other) in moves.items():
        replace_in(root / "jobs/research" / name, line, other)
    with contextlib.chdir(root):
        yield ends


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def test_each_move_is_one_line(moved: dict[str, str]) -> None:
    changed = git(Path(), "diff", "--numstat", "--", "jobs").splitlines()

    assert sorted(changed) == sorted(f"1\t1\t{job}/kustomization.yaml" for job in moved)
    assert len(moved) == len(BASES) * (len(BASES) - 1) + len(CLUSTERS) * (len(CLUSTERS) - 1)


def test_list_jobs_and_argo_cd_find_each_where_it_moved_to(moved: dict[str, str]) -> None:
    git(Path(), "add", "jobs")

    assert {job.folder: job.cluster for job in all_jobs(Path(), Sources(Path()))} == moved
    found = [
        (application["spec"]["source"]["path"], cluster)
        for cluster in CLUSTERS
        for each in of_kind(objects(cluster, "argocd"), "ApplicationSet")
        for application in applications(Path(), each)
    ]
    assert sorted(found) == sorted(moved.items())


def test_no_move_has_a_finding(moved: dict[str, str]) -> None:
    list_jobs(Path())

    found = said(main, "--no-cache", "--format=json", "--level=warning")

    # All moves together ask for more than a cluster has; each alone does not.
    told = [
        f"{each['rule']} {each['jobs']}: {each['message']}"
        for each in found.json["findings"]
        if each["rule"] != "RES012"
    ]
    assert (told, found.code, found.json["summary"]["jobs"]) == ([], 0, len(moved))
