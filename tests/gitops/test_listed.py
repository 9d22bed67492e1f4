"""tools/list-jobs: which jobs a cluster has, and the list that its Flux reads."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.gitops.folders import HOME
from tests.gitops.repositories import KUSTOMIZATION, add_cluster, add_job
from trainyard.errors import InputError
from trainyard.repository.list_command import main
from trainyard.repository.listed import all_jobs, list_file, listed
from trainyard.yaml.sources import Sources

FILE = "jobs/research/x/kustomization.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    add_cluster(tmp_path, "east")
    add_cluster(tmp_path, "west")
    add_cluster(tmp_path, "argo", flux=False)
    add_job(tmp_path, "jobs/vision/vit-l", "west")
    add_job(tmp_path, "jobs/research/llama", "east")
    add_job(tmp_path, "jobs/research/gpt2", "east")
    add_job(tmp_path, "jobs/research/bert", "argo")
    return tmp_path


def run(root: Path, *arguments: str) -> int:
    return main(["--root", str(root), *arguments])


def test_the_lists_of_this_repository_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(HOME, "--check") == 0, capsys.readouterr().err


def test_each_cluster_with_flux_gets_its_list(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root) == 0

    assert (
        (root / list_file("east")).read_text()
        == """\
# Written by tools/list-jobs from the job folders below jobs/: Flux has no generator that would find them.
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: gpt2
  namespace: research
spec:
  path: ./jobs/research/gpt2
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: llama
  namespace: research
spec:
  path: ./jobs/research/llama
"""
    )
    assert sorted(listed(Sources(root), "west")) == ["jobs/vision/vit-l"]
    assert not (root / list_file("argo")).exists()
    out, err = capsys.readouterr()
    assert (
        out
        == """\
argo
  jobs/research/bert
east
  jobs/research/gpt2
  jobs/research/llama
west
  jobs/vision/vit-l
"""
    )
    assert err == "clusters/east/flux/jobs/jobs.yaml: written\nclusters/west/flux/jobs/jobs.yaml: written\n"


def test_check_writes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (root / list_file("east")).read_text()

    assert run(root, "--check") == 1

    assert (root / list_file("east")).read_text() == before
    assert capsys.readouterr().err == (
        "clusters/east/flux/jobs/jobs.yaml: differs from jobs/: run tools/list-jobs\n"
        "clusters/west/flux/jobs/jobs.yaml: differs from jobs/: run tools/list-jobs\n"
    )


def test_what_was_written_is_right_and_is_not_written_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(root)
    capsys.readouterr()

    assert run(root, "--check") == 0
    assert run(root) == 0
    assert capsys.readouterr().err == ""


def test_json_is_for_programs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "--format", "json", "west", "argo") == 0

    assert json.loads(capsys.readouterr().out) == {"west": ["jobs/vision/vit-l"], "argo": ["jobs/research/bert"]}


def test_a_list_without_jobs_renders_to_nothing(root: Path) -> None:
    folder = root / "clusters" / "east" / "flux" / "jobs"
    (folder / "kustomization.yaml").write_text("resources: [jobs.yaml]\n")

    done = subprocess.run([HOME / ".tools/bin/kustomize", "build", folder], check=True, capture_output=True)

    assert done.stdout == b""


@pytest.mark.parametrize("name", ["123", "1e3", "0x10", "true", "null", "8b"])
def test_any_name_stays_a_string(root: Path, name: str) -> None:
    add_job(root, f"jobs/{name}/{name}", "west")

    run(root)

    metadata = [each["metadata"] for each in yaml.safe_load_all((root / list_file("west")).read_text())]
    assert {"name": name, "namespace": name} in metadata


@pytest.mark.parametrize(
    "text",
    [
        "resources:\n- ../../../base/torchrun\n- ../../../clusters/east/facts",
        "resources:\n- ../../../base/torchrun # how\n- ../../../clusters/east/facts # not clusters/west/facts\n",
        "resources: [../../../base/torchrun, ../../../clusters/east/facts]\n",
        "resources:\n  - '../../../base/torchrun'\n  - \"../../../clusters/east/facts\"\n",
        "resources:\n# how\n- ../../../base/torchrun\n\n# where\n- ../../../clusters/east/facts\n- extra.yaml\n",
        "resources:\n- ../../../base/torchrun\n- ../../../clusters/east/facts\n- ../../../clusters/west/facts\n",
        "commonAnnotations:\n  a: '\nresources:\n- a\n- ../../../clusters/west/facts\n'\n"
        "resources:\n- a\n- ../../../clusters/east/facts\n",
    ],
)
def test_the_cluster_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    add_cluster(tmp_path, "east")
    add_job(tmp_path, "jobs/research/llama", "", text)

    assert [job.cluster for job in all_jobs(tmp_path, Sources(tmp_path))] == ["east"]


@pytest.mark.parametrize(
    ("folder", "text", "message"),
    [
        ("jobs/research/x", "resources: [../../../base/torchrun]\n", f"{FILE}: the second of its resources must be"),
        ("jobs/research/x", "", f"{FILE}: the second of its resources must be"),
        ("jobs/research/x", "resources: [\n", f"{FILE}:"),
        (
            "jobs/research/x",
            "resources:\n- ../../../clusters/east/facts\n- ../../../base/torchrun\n",
            f"{FILE}:3:3: the second of its resources must be ../../../clusters/<name>/facts, of the cluster where",
        ),
        (
            "jobs/research/x",
            "resources:\n- ../../../base/torchrun\n- ../../../clusters/east/facts/\n",
            f"{FILE}:3:3: the second of its resources must be",
        ),
        (
            "jobs/research/x",
            "resources:\n- ../../../base/torchrun\n- ../../../clusters/east/facts\n  more\n",
            f"{FILE}:3:3: the second of its resources must be",
        ),
        (
            "jobs/research/x",
            "resources:\n- ../../../base/torchrun\n- ../../../clusters/north/facts\n",
            f"{FILE}:3:3: there is no cluster north: clusters/ holds argo, east, west",
        ),
        ("jobs/research/Big_Run", KUSTOMIZATION, "jobs/research/Big_Run: a team and a job are named like"),
        ("jobs/re search/x", KUSTOMIZATION, "jobs/re search/x: a team and a job are named like"),
        ("jobs/research/x\n  path: .", KUSTOMIZATION, "jobs/research/x\\n  path: .: a team and a job"),
    ],
)
def test_what_cannot_be_listed_is_said_and_nothing_is_written(
    root: Path, capsys: pytest.CaptureFixture[str], folder: str, text: str, message: str
) -> None:
    before = (root / list_file("east")).read_text()
    add_job(root, folder, "east", text)

    assert run(root) == 2

    assert capsys.readouterr().err.startswith(f"list-jobs: {message}")
    assert (root / list_file("east")).read_text() == before
    with pytest.raises(InputError):
        all_jobs(root, Sources(root))


@pytest.mark.parametrize("name", ["kustomization.yml", "Kustomization"])
def test_another_name_of_the_kustomization_is_refused_as_argo_cd_would_not_find_it(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = root / "jobs/research/llama"
    (folder / "kustomization.yaml").rename(folder / name)

    assert run(root) == 2

    assert capsys.readouterr().err == "list-jobs: jobs/research/llama/kustomization.yaml: file does not exist\n"


def test_an_unknown_cluster_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "north") == 2

    assert capsys.readouterr().err == "list-jobs: there is no cluster 'north': clusters/ holds argo, east, west\n"
