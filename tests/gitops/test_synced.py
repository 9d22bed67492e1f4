"""GIT009 to GIT012: what is judged is what Argo CD and Flux run."""

import shutil
from pathlib import Path

import pytest

from tests.gitops.repositories import add_cluster, add_job
from trainyard.findings.finding import Finding
from trainyard.gitops.synced import synced_otherwise, unsynced
from trainyard.repository.list_command import main
from trainyard.repository.listed import HEAD
from trainyard.yaml.sources import Sources

LLAMA, VIT = "jobs/research/llama", "jobs/vision/vit-l"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two clusters, a job on each, and right lists."""
    add_cluster(tmp_path, "east")
    add_cluster(tmp_path, "west")
    add_job(tmp_path, LLAMA, "east")
    add_job(tmp_path, VIT, "west")
    assert main(["--root", str(tmp_path)]) == 0
    return tmp_path


def said(root: Path, *jobs: str, whole: bool = True) -> list[str]:
    """Each finding as one line: rule, place, message."""
    return [line(finding) for finding in unsynced(root, jobs or (LLAMA, VIT), Sources(root), whole=whole)]


def line(finding: Finding) -> str:
    assert finding.place.position is not None
    at = finding.place.position
    return f"{finding.rule} {at.file}:{at.line}:{at.column} {finding.message}"


def test_right_lists_are_right(root: Path) -> None:
    assert said(root) == []


def test_a_new_job_is_in_no_list(root: Path) -> None:
    add_job(root, "jobs/research/new", "east")

    assert said(root, LLAMA, VIT, "jobs/research/new") == [
        "GIT009 jobs/research/new/kustomization.yaml:4:3 Flux of east will not run this job: "
        "clusters/east/flux/jobs/jobs.yaml does not name it"
    ]


def test_a_job_that_moved_stands_in_the_old_list(root: Path) -> None:
    add_job(root, LLAMA, "west")

    (finding,) = unsynced(root, [LLAMA, VIT], Sources(root), whole=True)

    assert line(finding) == (
        "GIT009 jobs/research/llama/kustomization.yaml:4:3 Flux of west will not run this job: "
        "clusters/west/flux/jobs/jobs.yaml does not name it"
    )
    (old,) = finding.related
    assert (old.position and (old.position.file, old.position.line), old.label) == (
        ("clusters/east/flux/jobs/jobs.yaml", 8),
        "Flux of east runs it",
    )


def test_a_job_that_two_lists_name(root: Path) -> None:
    west = root / "clusters/west/flux/jobs/jobs.yaml"
    west.write_text(west.read_text() + "---\nspec:\n  path: ./jobs/research/llama\n")

    assert said(root) == [
        "GIT009 jobs/research/llama/kustomization.yaml:4:3 Flux of west runs this job too, but it belongs to east"
    ]


def test_a_job_that_is_gone_is_named_at_its_line(root: Path) -> None:
    shutil.rmtree(root / VIT)

    assert said(root, LLAMA) == [
        "GIT010 clusters/west/flux/jobs/jobs.yaml:8:9 "
        "Flux of west is told to run jobs/vision/vit-l, which does not exist"
    ]
    assert said(root, LLAMA, whole=False) == [], "one job was asked for, not what else is there"


@pytest.mark.claim("no-list-without-flux")
def test_a_cluster_without_flux_needs_no_list(root: Path) -> None:
    add_cluster(root, "argo", flux=False)
    add_job(root, "jobs/research/new", "argo")

    assert said(root, LLAMA, VIT, "jobs/research/new") == []


NAMED = """\
resources: [../../../../base/gitops/argocd/team]
patches:
- patch: |-
    - op: replace
      path: /metadata/name
      value: research
  target: {kind: AppProject}
"""
MERGED = """\
resources: [../../../../base/gitops/argocd/team]
patches: [{path: name.yaml}]
"""
NAME = "kind: AppProject\nmetadata: {name: research}\n"
UNNAMED = "resources: [../../../../base/gitops/argocd/team]\n"


def add_argo(root: Path, cluster: str, resources: str = "../../../base/gitops/argocd, research", **files: str) -> None:
    """Argo CD's folder of a cluster, with a folder for the team research, and what both are made of."""
    (root / "base/gitops/argocd/team").mkdir(parents=True, exist_ok=True)
    for base in ("base/gitops/argocd", "base/gitops/argocd/team"):
        (root / base / "kustomization.yaml").write_text("resources: []\n")
    team = root / "clusters" / cluster / "argocd/research"
    team.mkdir(parents=True)
    (team.parent / "kustomization.yaml").write_text(f"resources: [{resources}]\n")
    for name, text in files.items():
        (team / f"{name}.yaml").write_text(text)


def test_a_team_that_argo_cd_does_not_know(root: Path) -> None:
    add_cluster(root, "argo", flux=False)
    add_argo(root, "argo", kustomization=NAMED)
    for job in ("jobs/research/new", "jobs/vision/new"):
        add_job(root, job, "argo")

    (finding,) = unsynced(root, [LLAMA, VIT, "jobs/research/new", "jobs/vision/new"], Sources(root), whole=True)

    assert line(finding) == (
        "GIT009 jobs/vision/new/kustomization.yaml:4:3 Argo CD of argo will not run this job: "
        "clusters/argo/argocd does not lead to team vision"
    )
    (there,) = finding.related
    assert (there.position and there.position.file, there.label) == (
        "clusters/argo/argocd/kustomization.yaml",
        "its teams: research",
    )


def test_a_team_whose_folder_argo_cd_is_not_led_to(root: Path) -> None:
    add_cluster(root, "argo", flux=False)
    add_argo(root, "argo", "../../../base/gitops/argocd", kustomization=NAMED)
    add_job(root, "jobs/research/new", "argo")

    assert said(root, "jobs/research/new", whole=False) == [
        "GIT009 jobs/research/new/kustomization.yaml:4:3 Argo CD of argo will not run this job: "
        "clusters/argo/argocd does not lead to team research"
    ]


@pytest.mark.parametrize(
    ("resources", "files"),
    [
        ("../../../base/gitops/argocd, research", {"kustomization": MERGED, "name": NAME}),
        ("../../../base/gitops/argocd, research", {"kustomization": UNNAMED}),
        ("research", {"kustomization": NAMED.replace("research", "vision")}),
        ("../../../base/gitops/argocd, gone", {"kustomization": NAMED}),
    ],
    ids=["named by a file", "named we do not see where", "no Argo CD of ours", "not to be read"],
)
def test_a_team_that_argo_cd_knows_or_may_know(root: Path, resources: str, files: dict[str, str]) -> None:
    add_cluster(root, "argo", flux=False)
    add_argo(root, "argo", resources, **files)
    add_job(root, "jobs/research/new", "argo")

    assert said(root, LLAMA, VIT, "jobs/research/new") == []


def test_where_flux_serves_argo_cd_is_not_asked(root: Path) -> None:
    add_argo(root, "east", "../../../base/gitops/argocd", kustomization=NAMED)

    assert said(root) == []


@pytest.mark.parametrize(
    "file",
    ["clusters/east/argocd/kustomization.yaml", "clusters/east/flux/jobs/jobs.yaml"],
)
def test_a_change_of_an_entry_point_asks_for_every_job(file: str) -> None:
    assert synced_otherwise([LLAMA, VIT], [file]) == [LLAMA, VIT]


def test_a_change_elsewhere_asks_for_the_job_that_it_is_in() -> None:
    assert synced_otherwise([LLAMA, VIT], [f"{LLAMA}/job.yaml", "clusters/east/facts/cluster.yaml"]) == [LLAMA]


def test_an_emptied_list_lacks_every_job(root: Path) -> None:
    (root / "clusters/east/flux/jobs/jobs.yaml").write_text(HEAD)

    assert [finding.split()[0] for finding in said(root)] == ["GIT009"]


def test_a_job_that_says_no_cluster_is_another_rule_s(root: Path) -> None:
    add_job(root, "jobs/research/new", "", "resources: [../../../base/torchrun]\n")

    assert said(root, LLAMA, VIT, "jobs/research/new") == []


@pytest.mark.parametrize("folder", ["jobs/research/group/x", "jobs/x"])
def test_a_job_where_nothing_looks(root: Path, folder: str) -> None:
    add_job(root, folder, "east")

    assert said(root, LLAMA, VIT, folder) == [
        f"GIT011 {folder}/job.yaml:0:0 nothing syncs {folder}: Argo CD and Flux look at jobs/<team>/<job>"
    ]


def test_a_job_outside_jobs_is_not_ours_to_sync(root: Path) -> None:
    add_job(root, "examples/research/x", "east")

    assert said(root, LLAMA, VIT, "examples/research/x") == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".argocd-source.yaml", "changes what Argo CD renders, and Flux does not read it"),
        (".argocd-source-research.llama.yaml", "changes what Argo CD renders, and Flux does not read it"),
        ("Chart.yaml", "makes Argo CD take the folder for a Helm chart, and Flux does not read it"),
        ("zChart.yaml", "makes Argo CD take the folder for a Helm chart, and Flux does not read it"),
        ("chart.yaml", ""),
        ("argocd-source.yaml", ""),
    ],
)
def test_files_by_which_argo_cd_renders_something_else(root: Path, name: str, message: str) -> None:
    (root / LLAMA / name).touch()

    assert said(root) == ([f"GIT012 {LLAMA}/{name}:0:0 {name} {message}"] if message else [])
