"""The workflows of GitHub: what they run is pinned, and what strangers write reaches no shell and no token."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

HOME = Path(__file__).resolve().parents[1]
FILES = sorted((HOME / ".github" / "workflows").glob("*.yaml"))


def workflow(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_are_pinned_by_digest_with_their_version(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_expression_stands_in_a_shell(file: Path) -> None:
    for job in workflow(file)["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rights_are_given_job_by_job(file: Path) -> None:
    found = workflow(file)
    assert found["permissions"] == {}
    assert "pull_request_target" not in found[True]  # `on` is a boolean in YAML 1.1


def test_a_job_that_may_write_checks_out_nothing() -> None:
    for file in FILES:
        for name, job in workflow(file)["jobs"].items():
            if job["permissions"].get("pull-requests") == "write":
                assert not any("checkout" in step.get("uses", "") for step in job["steps"]), name


@pytest.mark.slow_build
def test_github_reads_them_as_they_are_meant() -> None:
    """Keys, expressions, contexts, events, runners, and what a stranger writes in a script."""
    done = subprocess.run(
        [HOME / ".tools/actionlint/actionlint", "-shellcheck=", "-pyflakes=", *FILES],
        cwd=HOME,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
