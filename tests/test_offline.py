"""Nothing is downloaded when jobs are linted, planned, compared or written."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
JOB = "jobs/research/gpt2-124m"
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "command",
    [
        ("lint-jobs", "--no-cache", JOB),
        ("plan-job", JOB),
        ("diff-jobs", "HEAD", "--no-cache"),
        (
            "new-job",
            "--name=offline",
            "--cluster=lab-west",
            "--model=gpt2-124m",
            "--nodes=2",
            "--data=/data/a",
            "--dry-run",
        ),
    ],
    ids=lambda command: command[0],
)
def test_without_a_network(command: tuple[str, ...]) -> None:
    """Root gets a network namespace without a way out; everybody gets proxies that lead nowhere."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    done = subprocess.run(
        [*alone, HOME / "tools" / command[0], *command[1:]],
        cwd=HOME,
        env={**os.environ, **proxies, "GOPROXY": "off", "NO_PROXY": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
