"""The component of GitLab, which another program that reads GitLab's files runs on a repository of another layout."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gitops.hostile import git
from tests.setup.test_pre_commit import repository_of
from tests.workflows.test_action import JOB

pytestmark = pytest.mark.slow_build

HOME = Path(__file__).resolve().parents[2]
LOCKED = Path(__file__).parent / "gitlab"
USED = """
include:
- local: templates/lint-jobs.yml
  inputs:
    toolkit: {toolkit}
    revision: {revision}
    paths: deploy
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gitlab-ci-local, which reads and checks a pipeline as GitLab does, and runs its jobs in a shell."""
    folder = tmp_path_factory.mktemp("runner")
    shutil.copytree(LOCKED, folder, dirs_exist_ok=True)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--silent"], cwd=folder, check=True)
    return folder / "node_modules" / ".bin" / "gitlab-ci-local"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the component is told to judge with."""
    return repository_of(tmp_path_factory.mktemp("toolkit") / "trainyard", "requirements", "schemas", "tools")


def variables() -> list[str]:
    """The caches of Go on this machine: jobs get none of this environment, and would compile its programs anew."""
    go = shutil.which("go")
    assert go
    said = subprocess.run([go, "env", "GOCACHE", "GOMODCACHE"], capture_output=True, text=True, check=True)
    names = zip(("GOCACHE", "GOMODCACHE"), said.stdout.split(), strict=True)
    return [word for name, value in names for word in ("--variable", f"{name}={value}")]


@pytest.mark.skipif(
    None in (shutil.which("npm"), shutil.which("rsync")), reason="the other program needs npm and rsync"
)
@pytest.mark.claim("gitlab-finds-the-same")
def test_it_finds_what_the_command_finds(runner: Path, toolkit: Path, tmp_path: Path) -> None:
    root = tmp_path / "other"
    (root / "deploy").mkdir(parents=True)
    (root / "deploy/job.yaml").write_text(JOB)
    (root / "templates").mkdir()
    shutil.copy(HOME / "templates/lint-jobs.yml", root / "templates")
    revision = git(toolkit, "rev-parse", "HEAD").strip()
    (root / ".gitlab-ci.yml").write_text(USED.format(toolkit=toolkit, revision=revision))
    git(root, "init", "--quiet", "--initial-branch=main", "--template=")
    git(root, "remote", "add", "origin", "https://gitlab.example.com/team/other.git")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CI": "true"}

    command = [str(runner), "--force-shell-executor", "--no-color", *variables(), "lint-jobs"]
    piped = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    alone = subprocess.run(
        [HOME / "tools/lint-jobs", "--format", "codequality", "deploy"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (piped.returncode, alone.returncode) == (1, 1), piped.stdout + piped.stderr
    assert "JOB001" in piped.stdout
    told = json.loads((root / "gl-code-quality-report.json").read_text())
    assert told == json.loads(alone.stdout)
    assert any(finding["check_name"].startswith("JOB001 ") for finding in told)
