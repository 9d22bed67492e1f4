"""Forks as adopters make them: with a job more, with a team and a cluster of their own, without the examples.

In each of them the linter, the site, the report on a pull request and the toolkit's own tests pass.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[2]
ONE_MORE_JOB = """
tools/new-job --name my-run --cluster gpu-east --model llama-3.1-8b --nodes 2 --data /data/web --tokens 2e9
tools/list-jobs
"""
OWN_TEAM_AND_CLUSTER = r"""
git rm -rq jobs clusters/aws-oregon clusters/gpu-east clusters/gpu-north clusters/gpu-south
git mv clusters/lab-west clusters/bern
rm -r clusters/bern/platform/monitoring/tensorboard-gpt2-124m
sed -i /tensorboard/d clusters/bern/platform/monitoring/kustomization.yaml
for folder in platform flux/teams argocd; do git mv clusters/bern/$folder/research clusters/bern/$folder/vision; done
grep -rlE 'lab-west|research' clusters/bern | xargs sed -i 's/lab-west/bern/g; s/\bresearch\b/vision/g'
tools/new-job --name my-run --cluster bern --team vision --model gpt2-355m --nodes 2 --data /data/web --tokens 2e9
tools/list-jobs
"""
NO_EXAMPLES = "git rm -rq jobs clusters"
FORKS = {
    "one-more-job": (ONE_MORE_JOB, "11 jobs pass"),
    "own-team-and-cluster": (OWN_TEAM_AND_CLUSTER, "1 job passes"),
    "no-examples": (NO_EXAMPLES, "there is no job yet"),
}
OF_THE_EXAMPLES = ("tests/test_jobs.py", "tests/platform/test_clusters.py", "tests/docs/test_readme.py")
"""Tests that a fork once broke, since they read the examples where its own jobs and clusters lie."""


def run(folder: Path, script: str) -> str:
    """What a script prints, both streams. It ends at the first command that fails, and that fails the test."""
    who = {f"GIT_{role}_{what}": "adopter" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dropped = ("CI", "NO_COLOR", "GIT_DIR", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "TRAINYARD_COVER")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=kept | who | {"XDG_CACHE_HOME": str(folder.parent / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A clone with this working tree, and with the set-up done."""
    root = tmp_path / "fork"
    subprocess.run(["git", "clone", "--quiet", HOME, root], check=True)
    run(root, "git rm -rq --cached .")
    listed = run(HOME, "git ls-files --cached --others --exclude-standard -z").split("\0")[:-1]
    for file in listed:
        (root / file).unlink(missing_ok=True)
        if os.path.lexists(HOME / file):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HOME / file, root / file, follow_symlinks=False)
    (root / ".tools").mkdir()
    for made in (HOME / ".tools").iterdir():
        if made.name not in ("cache", "lock", "on-examples", "site"):
            (root / ".tools" / made.name).symlink_to(made)
    run(root, "git add --all && git commit -q --allow-empty -m 'upstream as it is now'")
    return root


@pytest.mark.parametrize(("made_by", "verdict"), FORKS.values(), ids=FORKS.keys())
def test_a_fork_passes_in_all_that_it_does(made_by: str, verdict: str, fork: Path) -> None:
    run(fork, made_by)
    run(fork, "git add --all && git commit -q -m 'our own'")

    assert verdict in run(fork, "tools/lint-jobs").splitlines()
    run(fork, "tools/diff-jobs HEAD~1")
    run(fork, "tools/build-docs")
    assert " passed" in run(fork, f"tools/test -q {' '.join(OF_THE_EXAMPLES)}")
    run(fork, "tools/update-docs && git diff --exit-code -- tests base schemas")


def test_a_fork_without_the_history_is_told_what_to_fetch(fork: Path) -> None:
    run(fork, f"{NO_EXAMPLES} && rm -rf .git && git init -q && git add --all && git commit -q -m 'without history'")

    said = run(fork, "tools/test tests/test_jobs.py && exit 1 || test $? = 3")

    assert "`git fetch --unshallow`, or fetch the repository that was forked" in said
