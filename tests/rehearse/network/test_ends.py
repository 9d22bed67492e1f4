"""Nothing of a rehearsal's network outlives it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rehearse.network.support import plan, pod
from trainyard.errors import Fault
from trainyard.rehearse.network import leftovers, open_network

REPOSITORY = Path(__file__).resolve().parents[3]
SLEEPS = """
import subprocess, sys, time
from tests.rehearse.network.support import plan, pod
from trainyard.rehearse.network import open_network
with open_network(plan(pod(0)), strict=True) as network:
    inside = subprocess.Popen([*network.argv(pod(0)), "sleep", "1000"])
    holder = network.argv(pod(0))[1].split("/")[2]
    print(holder, inside.pid, network.hosts(pod(0)).parent, flush=True)
    time.sleep(1000)
"""
UNPRIVILEGED = """
import os
from tests.rehearse.network.support import DIAL, LISTEN, plan, pod, run, service, start
from trainyard.rehearse.network import open_network
with open_network(plan(pod(0), pod(1), services=(service(publishNotReadyAddresses=True),))) as network:
    print(os.geteuid(), network.strict)
    start(network, pod(1), LISTEN, "29400")
    print(run(network, pod(0), DIAL, "gpt-1.gpt", "29400") == network.address(pod(0)))
"""


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_one_that_is_killed(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, text=True, env=_environment())
    assert process.stdout is not None
    holder, inside, folder = process.stdout.readline().split()
    assert Path(folder, "hosts").exists()
    process.send_signal(number)
    process.wait()
    deadline = time.monotonic() + 60
    while _lives(holder) or _lives(inside) or Path(folder).parent.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.root
def test_whoever_may_make_user_namespaces_needs_no_root() -> None:
    somebody = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--", sys.executable, "-c", UNPRIVILEGED]
    done = subprocess.run(somebody, text=True, capture_output=True, env=_environment())
    assert done.stdout.split() == ["1000", "True", "True"], done.stderr


def test_what_a_dead_process_left_is_swept_and_what_a_living_one_has_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = tmp_path / f"trainyard-network-{dead.pid}-1-x"
    reused = tmp_path / f"trainyard-network-{os.getpid()}-1-x"
    other = tmp_path / "trainyard-network-notes"
    kept = leftovers.new_folder()
    for folder in (left, reused, other):
        folder.mkdir()
    leftovers.sweep()
    assert sorted(tmp_path.iterdir()) == sorted([other, kept])


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Fault) as told, open_network(plan(pod(0)), strict=True):
        pass
    assert str(told.value) == (
        "nsenter, ip, tc, nft not on PATH: apt-get install util-linux iproute2 nftables, or rehearse on loopback"
    )


def _environment() -> dict[str, str]:
    path = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "tools")))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _lives(process: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
