"""Reading files of a repository: none from outside, none too large, each once."""

import os
from pathlib import Path

import pytest

from trainyard import limits
from trainyard.errors import InputError
from trainyard.yaml.sources import Sources


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "jobs").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("a: 1\n")
    (tmp_path / "repo" / "jobs" / "job.yaml").write_text("a: 1\n---\nb: 2\n")
    return tmp_path / "repo"


def test_files_are_read_once_and_remembered(root: Path) -> None:
    sources = Sources(root)
    assert sources.text("jobs/job.yaml") == "a: 1\n---\nb: 2\n"
    (root / "jobs" / "job.yaml").write_text("changed: 1\n")
    assert [node.plain() for node in sources.documents("jobs/job.yaml")] == [{"a": 1}, {"b": 2}]
    assert sources.documents("jobs/job.yaml") is sources.documents("jobs/job.yaml")
    assert sources.lines("jobs/job.yaml") == ["a: 1", "---", "b: 2", ""]
    assert sources.files == {"jobs/job.yaml"}
    assert sources.lines("none.yaml") == []


def refusal(sources: Sources, file: str) -> str:
    with pytest.raises(InputError) as caught:
        sources.documents(file)
    return str(caught.value)


def test_what_is_not_read(root: Path) -> None:
    (root / "link.yaml").symlink_to("../secret.yaml")
    (root / "loop.yaml").symlink_to("loop.yaml")
    (root / "inside.yaml").symlink_to("jobs/job.yaml")
    (root / "folder.yaml").symlink_to("jobs")
    os.mkfifo(root / "pipe.yaml")
    (root / "bytes.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (root / "large.yaml").write_bytes(b"#" * (limits.FILE_BYTES + 1))
    sources = Sources(root)
    assert refusal(sources, "link.yaml") == "link.yaml: file is through a symlink outside the repository"
    assert refusal(sources, "../secret.yaml") == "../secret.yaml: file is outside the repository"
    assert refusal(sources, "none.yaml") == "none.yaml: file does not exist"
    assert (
        refusal(sources, "jobs/job.yaml/x")
        == "jobs/job.yaml/x: file does not exist: a part of its path is not a folder"
    )
    assert refusal(sources, "jobs") == "jobs: is a folder, not a file"
    assert refusal(sources, "folder.yaml") == "folder.yaml: is a folder, not a file"
    assert refusal(sources, "pipe.yaml") == "pipe.yaml: is not a plain file"
    assert refusal(sources, "bytes.yaml") == "bytes.yaml:2:7: byte 0xE9 is not UTF-8 text"
    assert refusal(sources, "large.yaml") == "large.yaml: file has 4.0 MiB, and at most 4 MiB are read"
    assert refusal(sources, "loop.yaml") == "loop.yaml: too many levels of symbolic links"
    assert len(sources.documents("inside.yaml")) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(root: Path) -> None:
    (root / "jobs" / "job.yaml").chmod(0)
    assert refusal(Sources(root), "jobs/job.yaml") == "jobs/job.yaml: no permission to read this file"


def test_no_permission_as_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    assert refusal(Sources(root), "jobs/job.yaml") == "jobs/job.yaml: no permission to read this file"
