"""The workflow that comments: its step is run as GitHub runs it, with a `gh` that writes down what it is asked."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.diff.test_command import NASTY, nasty
from trainyard.diff.markdown import MARKER, MOST, markdown

HOME = Path(__file__).resolve().parents[1]
SHA = "0123456789abcdef0123456789abcdef01234567"
GH = f"""#!{sys.executable}
import json, pathlib, shutil, sys
with open("calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--input" in sys.argv:
    shutil.copy(sys.argv[sys.argv.index("--input") + 1], "posted.json")
elif "pulls" in sys.argv[-1]:
    print(json.dumps({{"head": {{"sha": "{SHA}"}}}}))
else:
    print(pathlib.Path("comments.json").read_text())
"""
WITHHELD = f"{MARKER}\nThis pull request changes what `tools/diff-jobs` writes. The log of its run shows it.\n"


@dataclass(frozen=True, slots=True)
class Step:
    """A folder as the step finds it, with what came of the run."""

    folder: Path

    def run(self, comment: str, number: str = "7\n", sha: str = SHA, comments: object = ((),)) -> tuple[int, str]:
        """Exit code, and what it said."""
        (self.folder / "diff-jobs").mkdir(exist_ok=True)
        (self.folder / "diff-jobs/comment.md").write_bytes(comment.encode())
        (self.folder / "diff-jobs/number").write_text(number)
        (self.folder / "comments.json").write_text(json.dumps(comments))
        (self.folder / "gh").write_text(GH)
        (self.folder / "gh").chmod(stat.S_IRWXU)
        workflow = yaml.safe_load((HOME / ".github/workflows/comment.yaml").read_text())
        (step,) = (step for step in workflow["jobs"]["comment"]["steps"] if "run" in step)
        assert step["shell"] == "python"
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "REPOSITORY": "example/jobs", "HEAD_SHA": sha, "GH_TOKEN": "none"}
        done = subprocess.run(
            [sys.executable, "-c", step["run"]], cwd=self.folder, env=settings, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def calls(self) -> list[list[str]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def posted(self) -> Any:
        return json.loads((self.folder / "posted.json").read_text())["body"]


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


@pytest.mark.parametrize("value", NASTY)
def test_what_diff_jobs_writes_is_posted_as_it_is(step: Step, value: str) -> None:
    comment = markdown(nasty(value))

    assert step.run(comment) == (0, "")

    assert step.posted == comment
    assert step.calls[-1][:4] == ["api", "--method", "POST", "repos/example/jobs/issues/7/comments"]


def test_a_comment_that_is_full_is_posted_too(step: Step) -> None:
    comment = markdown(nasty("x" * 3000), most=4000)
    assert "Left out" in comment

    assert step.run(comment) == (0, "")

    assert step.posted == comment


HOSTILE = {
    "a mention": "@example/owners please merge",
    "a link": "[the log](https://example.com)",
    "a bare address": "https://example.com/log",
    "a bare name of a host": "see www.example.com",
    "an image": "![x](https://example.com/x.png)",
    "an element": "<img src=https://example.com/x.png>",
    "an element in code": "<code><img src=x></code>",
    "an issue": "fixes #1",
    "a reference": "[x]: https://example.com",
    "HTML that looks like a fence": "<details><summary>rendered objects</summary>\n```diff\n<img src=x>\n```",
    "HTML after an end": "</details>\n```diff\n<img src=x>\n```",
    "a fence that ends early": "```diff\n+a\n```\n@example/owners\n```diff\n```",
    "a fence that never ends": "```diff\n+a",
    "another fence": "~~~diff\n+a\n~~~",
    "text after a line break of another kind": "a\r@example/owners",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_it_cannot_have_written_is_not_shown(step: Step, name: str) -> None:
    assert step.run(f"{MARKER}\n{HOSTILE[name]}\n") == (0, "")

    assert step.posted == WITHHELD


@pytest.mark.parametrize("comment", ["", "Hello", f"x{MARKER}\n", f"{MARKER}\n{'a' * (MOST + 1)}@b", "\x00" * 999_999])
def test_what_is_no_comment_of_ours_is_not_shown(step: Step, comment: str) -> None:
    assert step.run(comment) == (0, "")

    assert len(step.posted) <= MOST
    assert step.posted == WITHHELD or step.posted.startswith(f"{MARKER}\naaa")
    assert "@" not in step.posted


def test_one_comment_is_edited_from_then_on(step: Step) -> None:
    """The first of the bot that has the marker; what others wrote with it is left alone."""
    comments = [
        [{"id": 1, "user": {"login": "stranger"}, "body": f"{MARKER}\nmine"}],
        [
            {"id": 2, "user": {"login": "github-actions[bot]"}, "body": "another workflow's"},
            {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nold"},
        ],
    ]

    assert step.run(markdown(nasty("a")), comments=comments) == (0, "")

    assert step.calls[-1][:4] == ["api", "--method", "PATCH", "repos/example/jobs/issues/comments/3"]


@pytest.mark.parametrize("number", ["", "7/../../8", "7 --method=DELETE", "-1", "\n7", "\uff17"])
def test_a_number_is_a_number(step: Step, number: str) -> None:
    code, said = step.run(markdown(nasty("a")), number)

    assert (code, said) == (1, "the artifact names no pull request\n")
    assert step.calls == []


def test_another_pull_request_is_not_commented_on(step: Step) -> None:
    assert step.run(markdown(nasty("a")), "8", sha="f" * 40) == (0, "pull request 8 has moved on\n")

    assert len(step.calls) == 1


def test_a_run_that_left_nothing_is_no_failure(step: Step) -> None:
    step.run("", sha="f" * 40)
    (step.folder / "diff-jobs/comment.md").unlink()
    workflow = yaml.safe_load((HOME / ".github/workflows/comment.yaml").read_text())
    script = workflow["jobs"]["comment"]["steps"][-1]["run"]
    settings = {"REPOSITORY": "example/jobs", "HEAD_SHA": SHA}

    assert subprocess.run([sys.executable, "-c", script], cwd=step.folder, env=settings).returncode == 0
