"""GIT012: what Argo CD and Flux fetch is what lies here. Flux's own libraries and git itself are the judges."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.gitops.folders import HOME
from tests.gitops.hostile import git
from tests.gitops.repositories import add_cluster, add_job
from trainyard.gitops.fetched import fetched_otherwise, shadowed
from trainyard.kustomize.kustomization import files_read
from trainyard.repository.list_command import main
from trainyard.repository.listed import PARTS
from trainyard.yaml.sources import Sources

LLAMA = "jobs/research/llama"
BASE = "base/torchrun"
FOLDERS = (LLAMA, "clusters/east/flux/jobs")
ARTIFACT = HOME / ".tools" / "health" / "artifact"
POD = b'metadata: {name: p, annotations: {price: "\xc2\xa55"}}\r\nkind: Pod\n# $Id$\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a cluster that Flux serves and a job that reads a base and a file of its own."""
    add_cluster(tmp_path, "east")
    write(tmp_path, "clusters/east/facts/kustomization.yaml", "resources: []\n")
    write(tmp_path, "clusters/east/flux/jobs/kustomization.yaml", "resources: [jobs.yaml]\n")
    write(tmp_path, f"{BASE}/kustomization.yaml", "resources: [pod.yaml]\n")
    write(tmp_path, f"{BASE}/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    add_job(tmp_path, LLAMA, "east")
    generator = "configMapGenerator:\n- name: more\n  files: [data.txt]\n"
    write(tmp_path, f"{LLAMA}/kustomization.yaml", (tmp_path / LLAMA / "kustomization.yaml").read_text() + generator)
    write(tmp_path, f"{LLAMA}/data.txt", "data\n")
    write(tmp_path, "docs/index.md", "# words\n")
    assert main(["--root", str(tmp_path)]) == 0
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--template=")
    return tmp_path


def write(root: Path, file: str, content: str | bytes) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_bytes(content.encode() if isinstance(content, str) else content)


def said(root: Path) -> list[str]:
    """Each finding as file and message, once everything is under version control."""
    git(root, "add", "--all")
    found = [*shadowed(root, LLAMA), *fetched_otherwise(root, FOLDERS, Sources(root))]
    assert all(finding.rule == "GIT012" for finding in found)
    places = [finding.place.position for finding in found]
    return sorted(f"{at.file}: {finding.message}" for at, finding in zip(places, found, strict=True) if at is not None)


def rendered_files(root: Path) -> set[str]:
    sources = Sources(root)
    return {file for folder in FOLDERS for file in files_read(root, folder, sources)} | {f"{LLAMA}/job.yaml"}


def digests(root: Path, files: Mapping[str, str] | set[str]) -> dict[str, str]:
    return {file: hashlib.sha256((root / file).read_bytes()).hexdigest() for file in files}


def artifact(root: Path) -> dict[str, str]:
    """What Flux's artifact of HEAD holds."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "state")
    done = subprocess.run([ARTIFACT, root], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def is_fetched_as_it_lies_here(root: Path) -> bool:
    """Whether Flux's artifact and a fresh checkout hold the same in all that is rendered, and no folder is cut."""
    fetched = artifact(root)
    for file in rendered_files(root):
        (root / file).unlink()
    git(root, "checkout", "--quiet", "--", ".")
    needed = rendered_files(root)
    here = digests(root, needed)
    return {file: fetched.get(file) for file in needed} == here


def test_a_plain_repository_is_fetched_as_it_lies_here(root: Path) -> None:
    assert said(root) == []


def test_without_version_control_nothing_is_fetched(tmp_path: Path) -> None:
    write(tmp_path, "jobs/.sourceignore", "*\n")

    assert fetched_otherwise(tmp_path, FOLDERS, Sources(tmp_path)) == []


def test_where_git_refuses_it_is_said_that_nobody_looked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    (finding,) = fetched_otherwise(root, FOLDERS, Sources(root))

    assert finding.severity.label == "info"
    assert finding.message.startswith("nobody looked whether Argo CD and Flux fetch what lies here: git ls-files: ")
    assert "ownership" in finding.message


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        (f"{LLAMA}/.sourceignore", "kustomization.yaml\n", True),
        (f"{LLAMA}/more/.sourceignore", "x\n", True),
        ("jobs/.sourceignore", "*/llama/kustomization.yaml\n", True),
        (f"{BASE}/.sourceignore", "", True),
        (".sourceignore", "/jobs/research/llama/kustomization.yaml\n", True),
        (".sourceignore", "kustomization.yaml\n", True),
        (".sourceignore", "/docs/\n!/docs/../jobs\n", True),
        (".sourceignore", "/*\n!/clusters\n", True),
        (".sourceignore", "/base/\n", True),
        (".sourceignore", "# what no cluster needs\n/docs/\n/trainer\n", False),
        ("docs/.sourceignore", "*.md\n", False),
    ],
)
def test_what_flux_is_told_to_ignore(root: Path, file: str, text: str, told: bool) -> None:
    write(root, file, text)

    message = "makes Flux leave files out, and a folder without its kustomization.yaml is applied whole"
    assert said(root) == ([f"{file}: {file} {message}"] if told else [])


@pytest.mark.parametrize(
    ("place", "line", "told"),
    [
        (".gitattributes", "*.yaml working-tree-encoding=SHIFT_JIS", "working-tree-encoding=SHIFT_JIS"),
        (f"{LLAMA}/.gitattributes", "data.txt filter=lfs diff=lfs merge=lfs -text", "filter=lfs"),
        (".gitattributes", "jobs/** ident", "ident"),
        ("base/.gitattributes", "*.yaml text eol=crlf", "eol=crlf"),
        (".gitattributes", "[attr]odd eol=crlf\njob.yaml odd", "eol=crlf"),
        (".gitattributes", "* text=auto eol=lf\n*.png filter=lfs diff=lfs merge=lfs -text", ""),
        (
            ".gitattributes",
            "docs/** eol=crlf working-tree-encoding=latin-1\n*.yaml diff=yaml linguist-language=YAML",
            "",
        ),
        (".gitattributes", "*.yaml working-tree-encoding=UTF-8 -ident -filter whitespace=trailing-space", ""),
        (".gitattributes", "*.yaml export-subst\njobs export-ignore", ""),
    ],
)
def test_what_git_converts(root: Path, place: str, line: str, told: str) -> None:
    write(root, place, f"{line}\n")

    found = said(root)

    assert [told in message for message in found] == ([True] if told else []), found


def test_links_that_flux_leaves_out(root: Path) -> None:
    (root / LLAMA / "data.txt").unlink()
    (root / LLAMA / "data.txt").symlink_to("job.yaml")
    (root / LLAMA / "unused.txt").symlink_to("job.yaml")

    message = f"is a symlink: Flux does not fetch it, and {LLAMA} is rendered with it"
    assert said(root) == [f"{LLAMA}/data.txt: {LLAMA}/data.txt {message}"]


def test_a_base_behind_a_link(root: Path) -> None:
    (root / BASE).rename(root / "base/real")
    (root / BASE).symlink_to("real")

    assert [line.split(":")[0] for line in said(root)] == [BASE]


def test_names_that_flux_ignores(root: Path) -> None:
    for name in ("data.zip", "unused.png"):
        write(root, f"{LLAMA}/{name}", "data\n")
    kustomization = root / LLAMA / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("data.txt", "data.zip"))

    message = f"has a name that Flux ignores: Flux does not fetch it, and {LLAMA} is rendered with it"
    assert said(root) == [f"{LLAMA}/data.zip: {LLAMA}/data.zip {message}"]


def test_a_repository_that_argo_cd_alone_serves_may_have_both(root: Path) -> None:
    (root / "clusters/east/flux").rename(root / "clusters/east/other")
    (root / LLAMA / "data.txt").unlink()
    (root / LLAMA / "data.txt").symlink_to("job.yaml")

    assert said(root) == []


@pytest.mark.parametrize(
    ("to", "told"),
    [("/etc/passwd", True), ("../../outside", True), ("../x/../../base", True), ("../base", False), ("gone", False)],
)
def test_a_link_for_which_argo_cd_refuses_the_repository(root: Path, to: str, told: bool) -> None:
    (root / "docs/link").symlink_to(to)

    message = "docs/link is a symlink that leads out of the repository: Argo CD then refuses all its applications"
    assert said(root) == ([f"docs/link: {message}"] if told else [])


@pytest.mark.parametrize(
    ("folder", "listed", "told"),
    [("jobs/research/evil", True, True), ("jobs/research/evil", False, False), ("docs/theme", True, False)],
)
def test_submodules(root: Path, folder: str, listed: bool, told: bool) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{git(root, 'rev-parse', 'HEAD').strip()},{folder}")
    if listed:
        write(root, ".gitmodules", f'[submodule "x"]\n\tpath = {folder}\n\turl = https://git.example.net/x.git\n')
    (root / folder).mkdir(parents=True)
    git(root, "add", ".gitmodules") if listed else None

    found = fetched_otherwise(root, FOLDERS, Sources(root))

    message = f"{folder} is a submodule: Argo CD fetches it and applies what is in it, which nobody judged"
    assert [finding.message for finding in found] == ([message] if told else [])


@pytest.mark.slow_build
@pytest.mark.parametrize(
    "line",
    [
        *(
            f"*.yaml {attribute}"
            for attribute in ("text", "-text", "text=auto", "eol=lf", "eol=crlf", "ident", "binary")
        ),
        *(f"*.yaml {attribute}" for attribute in ("crlf", "-crlf", "crlf=input", "diff", "merge=union", "whitespace")),
        *(f"*.yaml {attribute}" for attribute in ("export-ignore", "export-subst", "delta", "encoding=UTF-16")),
        *(f"*.yaml {attribute}" for attribute in ("linguist-generated", "conflict-marker-size=9", "ident=no")),
        *(f"*.yaml working-tree-encoding={name}" for name in ("UTF-8", "SHIFT_JIS", "latin-1")),
    ],
)
def test_git_and_flux_agree_where_nothing_is_told_of_an_attribute(root: Path, line: str) -> None:
    """And differ in some file where something is: the real git, the real go-git."""
    write(root, f"{BASE}/pod.yaml", POD)
    git(root, "add", "--all")
    write(root, ".gitattributes", f"{line}\n")

    told = said(root)

    assert is_fetched_as_it_lies_here(root) == (not told)


@pytest.mark.slow_build
def test_git_filters_what_flux_does_not(root: Path) -> None:
    git(root, "config", "filter.upper.smudge", "tr a-z A-Z")
    git(root, "config", "filter.upper.clean", "tr A-Z a-z")
    write(root, ".gitattributes", "data.txt filter=upper\n")

    assert said(root)
    assert not is_fetched_as_it_lies_here(root)


@pytest.mark.slow_build
@pytest.mark.parametrize(
    "name", ["a.png", "a.PNG", "a.tar.gz", "a.gz", "cloudbuild.yaml", "xcloudbuild.yaml", ".flux.yaml"]
)
@pytest.mark.parametrize("folder", ["", "more/", ".github/", "data.zip/", ".circleci/deep/", "cloudbuild.yaml/"])
def test_flux_ignores_the_names_that_are_told(root: Path, folder: str, name: str) -> None:
    write(root, f"{LLAMA}/{folder}{name}", "data\n")
    kustomization = root / LLAMA / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("data.txt", f"{folder}{name}"))

    told = said(root)

    assert is_fetched_as_it_lies_here(root) == (not told)


@pytest.mark.slow_build
def test_flux_fetches_all_that_this_repository_renders() -> None:
    """The real repository, by the real library."""
    files = subprocess.run(
        ["git", "-C", HOME, "ls-files", "-z", "--", *PARTS], check=True, capture_output=True, text=True
    ).stdout
    head = subprocess.run([ARTIFACT, HOME], check=True, capture_output=True, text=True)

    fetched = json.loads(head.stdout)

    tracked = {name for name in files.split("\0") if name and (HOME / name).is_file()}
    changed = subprocess.run(["git", "-C", HOME, "diff", "--name-only", "-z", "HEAD"], capture_output=True, text=True)
    same = tracked - set(changed.stdout.split("\0"))
    assert {name: fetched.get(name) for name in same} == digests(HOME, same)
