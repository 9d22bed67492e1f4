"""docs/matrix.md: every base on every cluster, by one line for each, with three versions of kustomize."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bases.matrix import REPOSITORY, repository
from trainyard.docs.matrix import COMPONENTS, QUEUES, WAYS, clusters

PLATFORM = {
    "dataset-cache",
    "network-operator/rdma",
    "network-operator/roce",
    "network-operator/sriov",
    "rendezvous",
    "secrets",
    "storage/gcs-fuse",
    "storage/s3-mountpoint",
    "team/kueue",
}
"""Components that a cluster's platform or another base lists, and no job."""
OLD = sorted(REPOSITORY.glob(".tools/old/kustomize-*"))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    root = tmp_path_factory.mktemp("matrix")
    return root, repository(root)


@pytest.mark.claim("every-base-takes-run")
def test_every_base_is_in_the_matrix() -> None:
    takes_run = {
        file.parent.name
        for file in REPOSITORY.glob("base/*/kustomization.yaml")
        if file.parent.name != "runtime" and ("- ../run\n" in file.read_text() or "- ../torchrun\n" in file.read_text())
    }
    assert takes_run == {way.base for way in WAYS}
    assert {fabric.parent.name for fabric in REPOSITORY.glob("overlays/*/fabric.yaml")} == set(clusters().values())


def test_every_component_that_a_job_may_list_is_in_the_matrix() -> None:
    found = {
        file.parent.relative_to(REPOSITORY / "base").as_posix()
        for file in REPOSITORY.glob("base/**/kustomization.yaml")
        if "\nkind: Component\n" in file.read_text()
    }
    assert found - PLATFORM == {part.name for part in (*QUEUES, *COMPONENTS)}


def built(program: Path, root: Path, folders: list[str]) -> dict[str, bytes]:
    """What a kustomize prints for each folder."""

    def build(folder: str) -> bytes:
        return subprocess.run([program, "build", folder], cwd=root, check=True, capture_output=True).stdout

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(folders, pool.map(build, folders), strict=True))


@pytest.fixture(scope="module")
def new(jobs: tuple[Path, list[str]]) -> dict[str, bytes]:
    """What the pinned kustomize prints."""
    return built(REPOSITORY / ".tools/bin/kustomize", *jobs)


@pytest.mark.slow_build
@pytest.mark.long
@pytest.mark.parametrize("old", OLD, ids=lambda old: old.name)
def test_versions_of_kustomize_agree(jobs: tuple[Path, list[str]], new: dict[str, bytes], old: Path) -> None:
    before = built(old, *jobs)
    assert [folder for folder, text in new.items() if text != before[folder]] == []
