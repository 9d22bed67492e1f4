"""The action of GitHub: its steps, run as a runner would on a repository of another layout."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gitops.hostile import git

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((HOME / "action.yml").read_text())
[SCRIPT] = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: bert}
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Always
      containers: [{name: trainer, image: "example.org/bert:1"}]
"""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A repository that has nothing of ours."""
    root = tmp_path / "other"
    (root / "deploy").mkdir(parents=True)
    (root / "deploy/job.yaml").write_text(JOB)
    git(root, "init", "--quiet", "--initial-branch=main", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    return root


def run(root: Path, **inputs: str) -> "subprocess.CompletedProcess[str]":
    """The step with its inputs, in the shell that GitHub runs it in."""
    environment = {name.upper(): inputs.get(name, given["default"]) for name, given in ACTION["inputs"].items()}
    cache = {"XDG_CACHE_HOME": str(root.parent / "cache"), "GITHUB_ACTION_PATH": str(HOME)}
    shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPT]
    return subprocess.run(
        shell, cwd=root, env=os.environ | environment | cache, capture_output=True, text=True, check=False
    )


def found(report: Any) -> list[tuple[str, int]]:
    return [
        (each["ruleId"], each["locations"][0]["physicalLocation"]["region"]["startLine"])
        for each in report["runs"][0]["results"]
    ]


@pytest.mark.claim("action-finds-the-same")
def test_it_finds_what_the_command_finds(other: Path) -> None:
    done = run(other, paths="deploy", sarif="findings.sarif")
    command = [str(HOME / "tools/lint-jobs"), "--format", "sarif", "deploy"]
    alone = subprocess.run(command, cwd=other, capture_output=True, text=True, check=False)

    written = json.loads((other / "findings.sarif").read_text())
    assert (done.returncode, alone.returncode) == (1, 1), done.stderr
    assert found(written) == found(json.loads(alone.stdout))
    assert ("JOB001", 9) in found(written)
    assert "::error title=JOB001 job-restart-policy,file=deploy/job.yaml,line=9" in done.stdout


def test_only_what_changed(other: Path) -> None:
    git(other, "checkout", "--quiet", "-b", "mine")

    done = run(other, paths="deploy", changed="main")

    assert (done.returncode, done.stderr) == (0, "")


def test_an_input_is_no_command(other: Path) -> None:
    for text in ("$(touch stolen)", "; touch stolen", "deploy --format=json=stolen"):
        run(other, paths=text, changed=text)

    assert not (other / "stolen").exists()


def test_it_is_pinned_and_no_expression_stands_in_its_shell() -> None:
    text = (HOME / "action.yml").read_text()

    assert "${{" not in SCRIPT
    assert text.count("uses:") == 1
    assert "uses: actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5" in text
    assert all(given["default"] == "" and given["description"].endswith(".") for given in ACTION["inputs"].values())
