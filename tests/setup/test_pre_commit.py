"""The hooks, run by the real pre-commit: this repository's own, and the one that it offers to others."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.conftest import HOME, Run

JOB = "jobs/research/gpt2-124m/job.yaml"
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repository, *AUTHOR, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def repository_of(place: Path, *paths: str) -> Path:
    """A repository with one commit, which holds these files and folders of this one, as they are now."""
    listed = git(HOME, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *paths)
    for name in filter(None, listed.split("\0")):
        if (HOME / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, place / name)
    git(place, "init", "--quiet", "--initial-branch=main")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=Start")
    return place


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A repository of jobs, which has none of the tools."""
    return repository_of(tmp_path / "our jobs", "base", "clusters", "jobs", "overlays")


def plant(repository: Path) -> None:
    """A global batch that micro-batches cannot add up to, staged."""
    job = repository / JOB
    text = job.read_text()
    assert "global: 480" in text
    job.write_text(text.replace("global: 480", "global: 481"))
    git(repository, "add", JOB)


def pre_commit(run: Run, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = str(repository.parent / "pre-commit")
    return run(sys.executable, "-m", "pre_commit", *arguments, cwd=repository, PRE_COMMIT_HOME=home)


def test_other_repositories_get_the_linter_as_a_hook(jobs: Path, run: Run, tmp_path: Path) -> None:
    tools = repository_of(tmp_path / "trainyard", ".pre-commit-hooks.yaml", "requirements", "schemas", "tools")
    revision = git(tools, "rev-parse", "HEAD").strip()
    config = f"repos:\n- repo: {tools}\n  rev: {revision}\n  hooks: [{{id: lint-jobs}}]\n"
    (jobs / ".pre-commit-config.yaml").write_text(config)
    git(jobs, "add", ".pre-commit-config.yaml")
    git(jobs, "commit", "--quiet", "--message=Lint")

    untouched = pre_commit(run, jobs, "run")
    plant(jobs)
    planted = pre_commit(run, jobs, "run")
    git(jobs, "checkout", "--quiet", "HEAD", JOB)
    (jobs / JOB).write_text((jobs / JOB).read_text() + "# no change of any value\n")
    git(jobs, "add", JOB)
    mended = pre_commit(run, jobs, "run")

    assert (untouched.returncode, "Skipped" in untouched.stdout) == (0, True), untouched.stdout
    assert planted.returncode == 1, planted.stdout
    assert "micro 15 x accumulation 1 x ranks 32 = 480, but global is 481" in planted.stdout
    assert f"--> {JOB}:" in planted.stdout
    assert mended.returncode == 0, mended.stdout


def test_a_commit_with_a_mistake_is_refused_here(jobs: Path, run: Run) -> None:
    shutil.copy(HOME / ".pre-commit-config.yaml", jobs)
    (jobs / "tools").mkdir()
    (jobs / "tools/lint-jobs").symlink_to(HOME / "tools/lint-jobs")
    git(jobs, "add", "--all")
    git(jobs, "commit", "--quiet", "--message=Tools")

    plant(jobs)
    planted = pre_commit(run, jobs, "run", "lint-jobs")
    unhooked = pre_commit(run, jobs, "run", "lint-jobs", "--files", "README.md")

    assert planted.returncode == 1, planted.stdout
    assert "but global is 481" in planted.stdout
    assert (unhooked.returncode, "Skipped" in unhooked.stdout) == (0, True), unhooked.stdout


def test_both_files_are_valid(run: Run) -> None:
    for command, file in (
        ("validate-config", ".pre-commit-config.yaml"),
        ("validate-manifest", ".pre-commit-hooks.yaml"),
    ):
        done = run(sys.executable, "-m", "pre_commit", command, HOME / file)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow_build
def test_this_repository_passes_its_own_hygiene(run: Run, tmp_path: Path) -> None:
    here = repository_of(tmp_path / "here", ".")

    done = run(
        *(sys.executable, "-m", "pre_commit", "run", "--all-files", "--show-diff-on-failure"),
        cwd=here,
        PRE_COMMIT_HOME=str(tmp_path / "pre-commit"),
        SKIP="lint-jobs",
    )

    assert done.returncode == 0, done.stdout
