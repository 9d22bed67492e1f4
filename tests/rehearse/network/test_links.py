"""Links as slow as the fabric's, and interfaces beside the cluster's own."""

import time

import pytest

from tests.rehearse.network.support import DIAL, HANGS, LISTEN, plan, pod, policy, run, service, start
from trainyard.rehearse.network import open_network

pytestmark = pytest.mark.root

SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 29400)) as here:
    for _ in range(64):
        here.sendall(bytes(1 << 15))
    here.shutdown(socket.SHUT_WR)
    print(here.recv(1))
"""
"""2 MiB."""
TAKE = """
import socket
server = socket.create_server(("", 29400))
print("ready", flush=True)
here, _ = server.accept()
while here.recv(1 << 16):
    pass
"""
INTERFACES = "import socket; print(*(name for _, name in socket.if_nameindex()))"


def test_no_link_is_faster_than_the_fabric() -> None:
    ranks = pod(0), pod(1)
    with open_network(plan(*ranks, bits_per_second=40_000_000), strict=True) as network:
        start(network, ranks[1], TAKE)
        began = time.monotonic()
        run(network, ranks[0], SEND, network.address(ranks[1]))
        took = time.monotonic() - began
    assert took > ((2 << 20) - (1 << 18)) * 8 / 40_000_000


def test_further_networks_have_interfaces_of_their_own_which_policies_do_not_reach() -> None:
    ranks = pod(0, extra_networks=("rail-0", "rail-1@rdma1")), pod(1, extra_networks=("rail-0",))
    closed = policy("closed", podSelector={}, policyTypes=["Ingress", "Egress"])
    given = plan(*ranks, services=(service(),), policies=(closed,), bits_per_second=10**9)
    with open_network(given, strict=True) as network:
        assert run(network, ranks[0], INTERFACES) == "lo eth0 net1 rdma1"
        start(network, ranks[1], LISTEN, "29400")
        rail = run(network, ranks[1], "import subprocess; print(subprocess.getoutput('ip -o -4 address show net1'))")
        address = rail.split()[3].partition("/")[0]
        assert run(network, ranks[0], DIAL, address, "29400") != "TimeoutError"
        assert run(network, ranks[0], DIAL, network.address(ranks[1]), "29400", HANGS) == "TimeoutError"


def test_latency_is_there_or_said_to_be_missing() -> None:
    ranks = pod(0), pod(1)
    with open_network(plan(*ranks, latency=0.2), strict=True) as network:
        start(network, ranks[1], LISTEN, "29400")
        began = time.monotonic()
        run(network, ranks[0], DIAL, network.address(ranks[1]), "29400")
        late = time.monotonic() - began > 0.4
        assert late or network.unchecked == ("latency: this machine's kernel has no netem",)
