"""Forks as adopters make them: with a job more, with a team and a cluster of their own, without the examples.

In each of them the linter, the site, the report on a pull request and the toolkit's own tests pass.
"""

import re
from pathlib import Path

import pytest

from tests.forks.forking import HOME, run

pytestmark = pytest.mark.commands

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

OF_THE_DEFAULTS = ("tests/test_jobs.py", "tests/author/test_command.py", "tests/gitops/test_render.py")
"""Tests that read the images and the address that base/ names."""


@pytest.mark.claim("fork-stays-green")
@pytest.mark.parametrize(("made_by", "verdict"), FORKS.values(), ids=FORKS.keys())
def test_a_fork_passes_in_all_that_it_does(made_by: str, verdict: str, fork: Path) -> None:
    run(fork, made_by)
    run(fork, "git add --all && git commit -q -m 'our own'")

    assert verdict in run(fork, "tools/lint-jobs").splitlines()
    run(fork, "tools/diff-jobs HEAD~1")
    run(fork, "tools/build-docs")
    assert " passed" in run(fork, f"tools/test -q {' '.join(OF_THE_EXAMPLES)}")
    run(fork, "tools/update-docs && git diff --exit-code -- tests base schemas")


@pytest.mark.claim("fork-stays-green")
def test_a_fork_with_names_of_its_own_passes_the_tests_of_the_toolkit(fork: Path) -> None:
    """The commands of docs/adopt.md, and then a build of the trainer of its own."""
    [page] = re.findall(r"^```console\n(.*?)^```$", (HOME / "docs/adopt.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]
    run(fork, "\n".join(("set +e  # grep that finds nothing", *commands)))
    run(fork, f"sed -Ei 's/sha256:[0-9a-f]{{64}}/sha256:{'a' * 64}/' base/run/training-job.yaml")
    run(fork, "git add --all && git commit -q -m 'our names'")

    assert " passed" in run(fork, f"tools/test -q {' '.join(OF_THE_DEFAULTS)}")


def test_a_fork_without_the_history_is_told_what_to_fetch(fork: Path) -> None:
    run(fork, f"{NO_EXAMPLES} && rm -rf .git && git init -q && git add --all && git commit -q -m 'without history'")

    said = run(fork, "tools/test tests/test_jobs.py && exit 1 || test $? = 3")

    assert "`git fetch --unshallow`, or fetch the repository that was forked" in said
