"""The command line itself, as a process: what it prints and its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.checkout import LLAMA, Checkout

pytestmark = pytest.mark.commands

TOOLS = Path(__file__).parents[2] / "tools"


def lint_jobs(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-P", "-m", "trainyard", "lint-jobs", "--no-cache", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TOOLS)}
    return subprocess.run(program, cwd=checkout.root, env=environment, capture_output=True, text=True, check=False)


def test_untouched_copy_is_clean(checkout: Checkout) -> None:
    done = lint_jobs(checkout, "--fail-on=info")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.claim("passes-here-trains")
def test_mistake_is_shown_where_it_was_written(checkout: Checkout) -> None:
    checkout.replace(f"{LLAMA}/job.yaml", "global: 128", "global: 256")
    done = lint_jobs(checkout, "--color=never")
    assert done.returncode == 1
    assert "error[BAT001]" in done.stdout
    assert f"--> {LLAMA}/job.yaml:15:13\n   |\n15 |     global: 256\n   |             ^^^" in done.stdout


def test_input_that_cannot_be_judged(checkout: Checkout) -> None:
    checkout.patch(LLAMA, "- op: add\n  path: /spec/suspend\n  value: false\n", "{kind: Jobb}")
    done = lint_jobs(checkout, "--format=json")
    [finding] = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["rule"], finding["file"]) == (2, "INP001", f"{LLAMA}/kustomization.yaml")
