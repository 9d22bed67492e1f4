"""Pods reach each other as in the cluster: real sockets, the system's resolver."""

from collections.abc import Iterator

import pytest

from tests.rehearse.network.support import DIAL, LISTEN, RESOLVE, plan, pod, policy, run, service, start
from trainyard.rehearse.network import Network, open_network

pytestmark = pytest.mark.root

RANKS = (pod(0), pod(1))
PEERS = policy(
    "peers",
    podSelector={},
    policyTypes=["Ingress", "Egress"],
    ingress=[{"from": [{"podSelector": {}}], "ports": [{"port": 29400}]}],
    egress=[{"to": [{"podSelector": {}}]}, {"ports": [{"port": 53, "protocol": "UDP"}]}],
)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with open_network(plan(*RANKS, services=(service(publishNotReadyAddresses=True),), policies=(PEERS,))) as opened:
        start(opened, RANKS[1], LISTEN, "29400", "29500")
        yield opened


def test_a_rank_reaches_another_by_its_name_on_the_port_that_a_policy_opens(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "gpt-1.gpt", "29400") == network.address(RANKS[0])


def test_a_port_that_no_policy_opens_hangs(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "gpt-1.gpt", "29500") == "TimeoutError"


def test_names_are_the_clusters(network: Network) -> None:
    names = ("gpt", "gpt-1.gpt.research.svc.cluster.local", "gpt-2.gpt", "github.com")
    assert run(network, RANKS[0], RESOLVE, *names).splitlines() == [
        f"{network.address(RANKS[0])} {network.address(RANKS[1])}",
        network.address(RANKS[1]),
        "Name or service not known",
        "Name or service not known",
    ]
