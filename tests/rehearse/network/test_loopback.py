"""Where no namespaces may be made, pods share the loopback, and what is not checked is said."""

import socket
import subprocess
import sys

import pytest

from tests.rehearse.network.support import DIAL, LISTEN, plan, pod, service
from trainyard.errors import Fault
from trainyard.rehearse.network import open_network

RANKS = (pod(0), pod(1))
SERVICES = (service(), service("gpt-master", selector={"role": "master"}))


def test_names_become_addresses_and_words_stay() -> None:
    ranks = (pod(0, labels={**RANKS[0].labels, "role": "master"}), RANKS[1])
    with open_network(plan(*ranks, services=SERVICES), strict=False) as network:
        first, second = (network.address(rank) for rank in ranks)
        text = (
            "--rdzv-endpoint=gpt-0.gpt:29400 gpt-1.gpt.research.svc gpt-10.gpt gpt GPT-1.gpt my-gpt-0.gpt gpt-master:1"
        )
        assert network.localise(ranks[1], text) == (
            f"--rdzv-endpoint={first}:29400 {second} gpt-10.gpt gpt {second} my-gpt-0.gpt {first}:1"
        )


def test_pods_meet_at_addresses_of_their_own() -> None:
    with open_network(plan(*RANKS, services=SERVICES), strict=False) as network:
        assert len({network.address(rank) for rank in RANKS}) == 2
        with socket.socket() as free:
            free.bind(("", 0))
            port = str(free.getsockname()[1])
        server = subprocess.Popen([*network.argv(RANKS[1]), sys.executable, "-c", LISTEN, port], stdout=subprocess.PIPE)
        assert server.stdout is not None
        server.stdout.readline()
        dial = [*network.argv(RANKS[0]), sys.executable, "-c", DIAL, network.localise(RANKS[0], "gpt-1.gpt"), port]
        answer = subprocess.run(dial, capture_output=True, text=True, check=True).stdout
        server.kill()
        server.wait()
        server.stdout.close()
        assert answer.startswith("127.")
        assert network.environment(RANKS[0])["GLOO_SOCKET_IFNAME"] == "lo"


def test_what_is_not_checked_is_said() -> None:
    with open_network(plan(*RANKS), strict=False) as network:
        assert not network.strict
        assert network.unchecked[0] == (
            "the network is one loopback interface for all pods, since the rehearsal was asked for it"
        )
        assert any(line.startswith("NetworkPolicies") for line in network.unchecked)
        with pytest.raises(Fault, match="needs network namespaces"):
            network.cut(*RANKS)
