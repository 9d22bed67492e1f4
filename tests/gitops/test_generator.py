"""Each cluster's ApplicationSets make an application of each of its jobs, and of nothing else, whatever a file says."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.gitops.folders import CLUSTERS, HOME, Json, objects, of_kind
from tests.gitops.generator import applications
from trainyard.repository.listed import all_jobs
from trainyard.yaml.sources import Sources

JOBS = all_jobs(HOME, Sources(HOME))
GOOD = JOBS[0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Git repository with this one's jobs."""
    shutil.copytree(HOME / "jobs", tmp_path / "jobs")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    track(tmp_path)
    return tmp_path


def track(repository: Path) -> None:
    subprocess.run(["git", "-C", repository, "add", "--all"], check=True)


def add(repository: Path, folder: str, content: object) -> None:
    """A kustomization.yaml of a stranger's."""
    (repository / folder).mkdir(parents=True)
    (repository / folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    track(repository)


def made(repository: Path, *, new_globbing: bool = False) -> dict[str, list[Json]]:
    """The applications on each cluster."""
    return {
        cluster: [
            application
            for item in of_kind(objects(cluster, "argocd"), "ApplicationSet")
            for application in applications(repository, item, new_globbing=new_globbing)
        ]
        for cluster in CLUSTERS
    }


def job(**more: object) -> Json:
    return {"resources": ["../../../base/torchrun", f"../../../clusters/{GOOD.cluster}/facts"]} | more


@pytest.mark.parametrize("new_globbing", [False, True])
def test_each_cluster_gets_its_own_jobs(repository: Path, new_globbing: bool) -> None:
    found = made(repository, new_globbing=new_globbing)

    for cluster, items in found.items():
        assert {item["metadata"]["name"]: item["spec"]["source"]["path"] for item in items} == {
            f"{job.team}.{job.name}": job.folder for job in JOBS if job.cluster == cluster
        }
    assert any(found.values())


def test_argo_cd_and_flux_run_the_same_jobs(repository: Path) -> None:
    for cluster, items in made(repository).items():
        listed = of_kind(objects(cluster, "flux/jobs"), "Kustomization")
        synced = sorted(f"./{item['spec']['source']['path']}" for item in items)
        assert synced == sorted(item["spec"]["path"] for item in listed)


def test_project_and_namespace_are_written_in_the_set_and_the_rest_comes_from_the_path() -> None:
    for cluster in CLUSTERS:
        for item in of_kind(objects(cluster, "argocd"), "ApplicationSet"):
            spec, team = item["spec"]["template"]["spec"], item["metadata"]["name"]
            assert (spec["project"], spec["destination"]["namespace"]) == (team, team)
            assert item["spec"]["goTemplateOptions"] == ["missingkey=error"]
            assert "templatePatch" not in item["spec"]


@pytest.mark.parametrize("new_globbing", [False, True])
@pytest.mark.parametrize("folder", ["jobs/research/group/x", "jobs/research", "jobs/default/x", "jobs/argocd/x"])
def test_a_job_elsewhere_becomes_no_application(repository: Path, folder: str, new_globbing: bool) -> None:
    before = made(repository, new_globbing=new_globbing)
    (repository / folder).mkdir(parents=True, exist_ok=True)
    (repository / folder / "kustomization.yaml").write_text(yaml.safe_dump(job()))
    track(repository)

    assert made(repository, new_globbing=new_globbing) == before


@pytest.mark.parametrize(
    "content",
    [
        job(path={"path": "clusters/gpu-east/platform", "basename": "platform", "segments": ["a", "kube-system"]}),
        job(project="platform", namespace="kube-system", destination={"namespace": "kube-system"}),
        job(metadata={"name": "{{ .path.path }}", "namespace": "kube-system"}),
        {"resources.1": f"../../../clusters/{GOOD.cluster}/facts"},
    ],
)
def test_a_stranger_s_kustomization_cannot_leave_its_team(repository: Path, content: Json) -> None:
    add(repository, "jobs/research/x", content)

    (new,) = (item for item in made(repository)[GOOD.cluster] if item["spec"]["source"]["path"] == "jobs/research/x")

    assert new["metadata"]["name"] == "research.x"
    assert new["spec"]["project"] == "research"
    assert new["spec"]["destination"]["namespace"] == "research"


def test_teams_and_jobs_with_dashes_never_share_a_name() -> None:
    template = of_kind(objects(CLUSTERS[0], "argocd"), "ApplicationSet")[0]["spec"]["template"]["metadata"]["name"]

    assert template == "{{ index .path.segments 1 }}.{{ .path.basename }}", "no team or job may hold the dot"
