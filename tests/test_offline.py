"""Nothing is downloaded when jobs are linted, fixed, planned, compared or written."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.copies import copy_parts

HOME = Path(__file__).resolve().parents[1]
JOB = "jobs/research/gpt2-124m"
NOWHERE = "http://127.0.0.1:9"
CONNECT = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
NEW_JOB = ("--name=offline", "--cluster=lab-west", "--model=gpt2-124m", "--nodes=2", "--data=/data/a")


@cache
def alone() -> tuple[str, ...]:
    """What runs a command in a network namespace without a way out: root may, and others where the kernel lets them."""
    for way in (("unshare", "--net"), ("unshare", "--user", "--map-current-user", "--net")):
        if shutil.which("unshare") and subprocess.run([*way, "true"], capture_output=True).returncode == 0:
            return way
    return ()


def offline(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without a network; where no namespace is to be had, with proxies that lead nowhere."""
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    settings = {**os.environ, **proxies, "GOPROXY": "off", "NO_PROXY": ""}
    return subprocess.run([*alone(), *command], cwd=cwd, env=settings, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def branch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of one job and all that it is made of, with an edit and a mistake that is not committed."""
    root = tmp_path_factory.mktemp("offline")
    copy_parts(root, "base", "clusters", "overlays", JOB)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "--quiet", "--template="), ("add", "--all"), ("commit", "--quiet", "-m", "state")):
        subprocess.run([*git, *arguments], cwd=root, check=True)
    file = root / JOB / "job.yaml"
    file.write_text(file.read_text().replace("  nodes: 4", "  nods: 2"))
    return root


def test_there_is_no_network() -> None:
    if not alone():
        pytest.skip("this user may make no network namespace")
    done = offline(sys.executable, "-c", CONNECT, cwd=HOME)
    assert "Network is unreachable" in done.stderr


@pytest.mark.claim("offline")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("lint-jobs", "--no-cache", JOB), 1, "SCH003"),
        (("lint-jobs", "--no-cache", "--fix", "--diff", JOB), 1, "+  nodes: 2"),
        (("diff-jobs", "HEAD", "--no-cache"), 0, "1 edited"),
        (("plan-job", JOB), 0, "tokens/s"),
        (("new-job", *NEW_JOB, "--dry-run"), 0, "kind: TrainingJob"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else None,
)
def test_without_a_network(branch: Path, command: tuple[str, ...], code: int, said: str) -> None:
    root = HOME if command[0] in ("plan-job", "new-job") else branch

    done = offline(HOME / "tools" / command[0], *command[1:], cwd=root)

    assert (done.returncode, done.stderr if code == 0 else "") == (code, "")
    assert said in done.stdout
