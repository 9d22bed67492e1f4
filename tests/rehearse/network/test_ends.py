"""Nothing of a rehearsal's network outlives it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rehearse.network.support import plan, pod
from trainyard.errors import Fault
from trainyard.rehearse.network import NetworkPlan, leftovers, open_network

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
FALLS_BACK = """
from tests.rehearse.network.support import plan, pod
from trainyard.rehearse.network import open_network
with open_network(plan(pod(0))) as network:
    print(network.strict, network.unchecked[0])
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
def test_a_network_whose_holder_is_killed_says_so() -> None:
    with open_network(plan(pod(0)), strict=True) as network:
        os.kill(int(network.argv(pod(0))[1].split("/")[2]), signal.SIGKILL)
        with pytest.raises(Fault, match="has ended"):
            network.waiting()
        folder = network.hosts(pod(0)).parent.parent
    assert not folder.exists()


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
    monkeypatch.setattr("trainyard.rehearse.network.program_path", lambda: str(tmp_path))
    with pytest.raises(Fault) as told, open_network(plan(pod(0)), strict=True):
        pass
    assert str(told.value) == (
        "nsenter, ip, tc, nft not on PATH: apt-get install util-linux iproute2 nftables, or rehearse on loopback"
    )


@pytest.mark.root
def test_where_forwarding_cannot_be_switched_on_it_says_so_and_takes_loopback() -> None:
    frozen = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", frozen, "sh", sys.executable, "-c", FALLS_BACK]
    done = subprocess.run(argv, text=True, capture_output=True, env=_environment())
    why = "the network is one loopback interface for all pods, since no router can be made here"
    assert done.stdout.startswith(f"False {why}"), done.stderr


@pytest.mark.parametrize(
    "details",
    [{"pods": (pod(0, extra_networks=("rail@net1 up\nnetns exec x sh",)),)}, {"pods": (pod(0),), "interface": "a b"}],
)
def test_a_name_that_is_no_interfaces_is_refused_before_it_is_part_of_a_command(details: dict[str, Any]) -> None:
    with pytest.raises(Fault, match="cannot be the name of a network interface"):
        NetworkPlan(**details)


def _environment() -> dict[str, str]:
    path = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "tools")))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _lives(process: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
