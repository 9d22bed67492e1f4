"""What a commit holds is unpacked as it is stored, and nothing of it leads out."""

import os
from pathlib import Path

import pytest

from tests.gitops.hostile import git
from trainyard.errors import UsageError
from trainyard.repository.git import extract


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--template=", str(folder))
    return folder


def commit(root: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    return git(root, "rev-parse", "HEAD").strip()


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_attributes_change_nothing(root: Path, tmp_path: Path) -> None:
    files = {"base/a.yaml": b"a: $Format:%H$\n", "base/b.yaml": b"# $Id$\nb: 1\n", "jobs/c.yaml": b"c: 1\n"}
    commit(root, files)
    attributes = b"*.yaml ident eol=crlf export-subst\nb.yaml export-ignore\njobs export-ignore\n"
    id = commit(root, {".gitattributes": attributes})

    extract(root, id, ["base", "jobs", "not-there"], tmp_path / "out")

    assert below(tmp_path / "out") == files


def test_links_stay_inside(root: Path, tmp_path: Path) -> None:
    (root / "base").mkdir()
    for name, to in {
        "in": "../jobs/x",
        "out": "../../x",
        "far": "a/../../../x",
        "root": "/etc",
        "deep": "gone",
    }.items():
        (root / "base" / name).symlink_to(to)
    id = commit(root, {"jobs/x/job.yaml": b"a: 1\n"})

    extract(root, id, ["base", "jobs"], tmp_path / "out")

    assert sorted(os.listdir(tmp_path / "out/base")) == ["deep", "in"]
    assert (tmp_path / "out/base/in/job.yaml").read_bytes() == b"a: 1\n"


def test_any_name_and_any_content(root: Path, tmp_path: Path) -> None:
    files = {"base/a\nb\t'\".yaml": b"\0\n\n", "base/\udcff.yaml": b"", "base/é/x": b"blob 3\nabc\n" * 1000}
    id = commit(root, files)

    extract(root, id, ["base"], tmp_path / "out")

    assert below(tmp_path / "out") == files


def test_a_folder_of_a_larger_repository(root: Path, tmp_path: Path) -> None:
    id = commit(root, {"training/base/a.yaml": b"a: 1\n", "base/b.yaml": b"b: 1\n"})

    extract(root / "training", id, ["base"], tmp_path / "out")

    assert below(tmp_path / "out") == {"base/a.yaml": b"a: 1\n"}


def test_a_submodule_is_left_out(root: Path, tmp_path: Path) -> None:
    id = commit(root, {"base/a.yaml": b"a: 1\n"})
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{id},base/more")
    git(root, "commit", "--quiet", "--message", "more")

    extract(root, "HEAD", ["base"], tmp_path / "out")

    assert below(tmp_path / "out") == {"base/a.yaml": b"a: 1\n"}


def test_a_commit_that_is_not_there(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        extract(root, "0" * 40, ["base"], tmp_path / "out")
