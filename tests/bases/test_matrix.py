"""docs/matrix.md: every base on every cluster, by one line for each."""

import contextlib
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bases.matrix import REPOSITORY, repository
from tests.said import said
from trainyard.cli import main
from trainyard.matrix import PAGE, WAYS, clusters, page

OLD = sorted(REPOSITORY.glob(".tools/old/kustomize-*"))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    root = tmp_path_factory.mktemp("matrix")
    folders = repository(root)
    with contextlib.chdir(root):
        yield root, folders


def test_every_base_is_in_the_matrix() -> None:
    takes_run = {
        file.parent.name
        for file in REPOSITORY.glob("base/*/kustomization.yaml")
        if file.parent.name != "runtime" and ("- ../run\n" in file.read_text() or "- ../torchrun\n" in file.read_text())
    }
    assert takes_run == {way.base for way in WAYS}
    assert {fabric.parent.name for fabric in REPOSITORY.glob("overlays/*/fabric.yaml")} == set(clusters().values())


def test_no_job_has_a_finding(jobs: tuple[Path, list[str]]) -> None:
    _, folders = jobs
    found = said(main, "--no-cache", "--format=json", *folders)
    told = [f"{each['rule']} {each['severity']} {each['jobs']}: {each['message']}" for each in found.json["findings"]]
    loud = [line for line in told if " info " not in line]
    assert (loud, found.code) == ([], 0)


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
@pytest.mark.parametrize("old", OLD, ids=lambda program: program.name)
def test_versions_of_kustomize_agree(jobs: tuple[Path, list[str]], new: dict[str, bytes], old: Path) -> None:
    before = built(old, *jobs)
    assert [folder for folder, text in new.items() if text != before[folder]] == []


def test_page_is_what_the_tools_write() -> None:
    assert PAGE.read_text() == page(), "run tools/update-docs"
