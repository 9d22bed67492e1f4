"""Pods reach each other as in the cluster: real sockets, the system's resolver."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.rehearse.network.support import (
    DIAL,
    ECHO,
    HANGS,
    JOB,
    LISTEN,
    RESOLVE,
    TALK,
    plan,
    pod,
    policy,
    run,
    service,
    start,
)
from trainyard.rehearse.network import Network, PodSpot, open_network

pytestmark = pytest.mark.root

RANKS = (pod(0), pod(1, ports={("TCP", "http"): 8080}))
HASTY = {"options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "1"}]}
HIDDEN = pod(2, labels={"app": "hidden"}, hostname="hidden", subdomain="hidden", dns_config=HASTY)
ON_HOST = tuple(pod(3 + index, node="node-0", host_network=True, labels={}) for index in range(2))
PEERS = policy(
    "peers",
    podSelector={"matchLabels": JOB},
    policyTypes=["Ingress", "Egress"],
    ingress=[{"from": [{"podSelector": {}}], "ports": [{"port": 29400, "endPort": 29401}, {"port": "http"}]}],
    egress=[{"to": [{"podSelector": {}}]}, {"ports": [{"port": 53, "protocol": "UDP"}]}],
)
MUTE = policy("mute", podSelector={"matchLabels": {"app": "hidden"}}, policyTypes=["Egress"])
SERVICES = (
    service(publishNotReadyAddresses=True),
    service("hidden", selector={"app": "hidden"}),
    service("web", clusterIP="", ports=[{"name": "http", "port": 80, "targetPort": "http"}]),
    service("elsewhere", type="ExternalName", externalName="example.org"),
)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    given = plan(*RANKS, HIDDEN, *ON_HOST, services=SERVICES, policies=(PEERS, MUTE))
    with open_network(given, strict=True) as opened:
        start(opened, RANKS[1], LISTEN, "29400", "29500", "8080")
        start(opened, ON_HOST[0], LISTEN, "22")
        yield opened


def told(network: Network, pod: PodSpot) -> list[str]:
    """What the network says of a pod's waiting, a line each."""
    return [
        f"{each.protocol} {each.port} {each.peer}: {each.state}, {each.why}"
        for each in network.waiting()
        if each.pod == pod.key
    ]


def test_a_rank_reaches_another_by_its_name_on_the_port_that_a_policy_opens(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "gpt-1.gpt", "29400") == network.address(RANKS[0])


def test_a_port_that_no_policy_opens_hangs_and_the_policy_is_named(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "gpt-1.gpt", "29500", HANGS) == "TimeoutError"
    assert told(network, RANKS[0]) == [
        "TCP 29500 research/gpt-1-x7k2p: DROPPED, no ingress rule lets TCP 29500 in to research/gpt-1-x7k2p: "
        "network policy isolates it: peers; peers lets gpt-0-x7k2p through on other ports"
    ]


def test_a_connection_that_hangs_is_seen_while_it_does(network: Network) -> None:
    dial = "import socket; print(1); socket.create_connection(('gpt-1.gpt', 29501))"
    process = start(network, RANKS[0], dial)
    while not any("29501" in line and "SYN-SENT" in line for line in told(network, RANKS[0])):
        assert process.poll() is None
    process.kill()


def test_a_port_on_which_nobody_listens_refuses_until_somebody_does(network: Network) -> None:
    address = network.address(ON_HOST[0])
    assert run(network, HIDDEN, DIAL, address, "23", HANGS) == "TimeoutError"
    assert run(network, ON_HOST[1], DIAL, network.address(RANKS[0]), "23") == "ConnectionRefusedError"
    line = "TCP 23 research/gpt-0-x7k2p: REFUSED, nothing listens there on TCP 23"
    assert line in told(network, ON_HOST[0])
    server = start(network, RANKS[0], LISTEN, "23")
    assert run(network, ON_HOST[1], DIAL, network.address(RANKS[0]), "23") == address
    assert line not in told(network, ON_HOST[0])
    server.kill()


def test_names_are_the_clusters(network: Network) -> None:
    names = ("gpt", "gpt-1.gpt.research.svc.cluster.local", "gpt-1.gpt.research", "gpt-1", "gpt-0")
    first, second = (network.address(rank) for rank in RANKS)
    unknown = "Name or service not known"
    assert run(network, RANKS[0], RESOLVE, *names).splitlines() == [
        " ".join(sorted((first, second))),
        second,
        second,
        unknown,
        first,
    ]


def test_a_name_that_does_not_resolve_is_told_with_its_cause(network: Network) -> None:
    run(network, RANKS[1], RESOLVE, "gpt-0", "gpt-0.trainer", "gpt-9.gpt", "gpt-0.gpt.vision")
    run(network, RANKS[1], RESOLVE, "hidden.hidden", "hidden", "example.org")
    here = "there are: elsewhere, gpt, hidden, web"
    unready = "it does not set publishNotReadyAddresses"
    assert [line for line in told(network, RANKS[1]) if line.startswith("DNS")] == [
        "DNS 53 example.org: NXDOMAIN, no name of this cluster; names outside of it do not resolve in a rehearsal",
        "DNS 53 gpt-0: NXDOMAIN, there is no Service gpt-0 in namespace research; "
        "pods are found as hostname.subdomain, and gpt-0.gpt is one",
        "DNS 53 gpt-0.gpt.vision: NXDOMAIN, there is no Service gpt in namespace vision (namespace research has one)",
        f"DNS 53 gpt-0.trainer: NXDOMAIN, there is no Service trainer in namespace research ({here}); "
        "pod gpt-0-x7k2p has subdomain gpt",
        "DNS 53 gpt-9.gpt: NXDOMAIN, no pod of namespace research has hostname gpt-9 "
        "(those of Service gpt have: gpt-0, gpt-1)",
        f"DNS 53 hidden: NXDOMAIN, no pod of Service hidden is ready, and {unready}",
        f"DNS 53 hidden.hidden: NXDOMAIN, pod {HIDDEN.name} is not ready, and Service hidden does not set "
        "publishNotReadyAddresses",
    ]


def test_a_pod_that_may_not_ask_dns_waits_for_it(network: Network) -> None:
    run(network, HIDDEN, "import socket\ntry: socket.gethostbyname('gpt')\nexcept OSError as e: print(e.strerror)")
    assert (
        "UDP 53 kube-system/coredns: DROPPED, no egress rule lets UDP 53 out of "
        f"research/{HIDDEN.name}: network policy isolates it: mute" in told(network, HIDDEN)
    )


def test_names_and_virtual_addresses_follow_the_pods_that_are_ready(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "web", "80") == "ConnectionRefusedError"
    assert any("no pod is ready behind Service web" in line for line in told(network, RANKS[0]))
    network.set_ready(RANKS[1], True)
    network.set_ready(HIDDEN, True)
    assert run(network, RANKS[0], DIAL, "web", "80") == network.address(RANKS[0])
    assert run(network, RANKS[1], DIAL, "web", "80") != "ConnectionRefusedError"
    assert not any("web" in line for line in told(network, RANKS[0]))
    assert run(network, RANKS[0], RESOLVE, "hidden.hidden") == network.address(HIDDEN)
    network.set_running(HIDDEN, False)
    assert run(network, RANKS[0], RESOLVE, "hidden.hidden") == "Name or service not known"
    network.set_ready(RANKS[1], False)


def test_pods_on_the_hosts_network_share_their_nodes_and_its_resolver(network: Network) -> None:
    assert network.address(ON_HOST[0]) == network.address(ON_HOST[1])
    assert run(network, ON_HOST[1], DIAL, "127.0.0.1", "22") == "127.0.0.1"
    assert run(network, ON_HOST[0], RESOLVE, "gpt") == "Name or service not known"
    assert "asks the node's DNS servers" in "".join(told(network, ON_HOST[0]))


def test_two_pods_are_cut_off_and_joined_again(network: Network) -> None:
    start(network, RANKS[1], ECHO)
    talk = start(network, RANKS[0], TALK)
    assert talk.stdin is not None
    assert talk.stdout is not None
    network.cut(*RANKS)
    talk.stdin.write("\n")
    talk.stdin.flush()
    while not any("29401" in line and "cut these two off" in line for line in told(network, RANKS[0])):
        assert talk.poll() is None
    network.join(*RANKS)
    network.join(*RANKS)
    assert talk.stdout.readline() == "x\n"
    assert not any("cut" in line for line in told(network, RANKS[0]))
    talk.kill()


def test_nothing_outside_is_reached(network: Network) -> None:
    assert run(network, RANKS[0], DIAL, "192.0.2.1", "443") == "OSError"
    assert "TCP 443 192.0.2.1: UNREACHABLE, the address lies outside of the rehearsed cluster" in told(
        network, RANKS[0]
    )


def test_the_host_sees_nothing_of_it(network: Network) -> None:
    shown = ""
    for argv in (["ip", "-o", "address"], ["ip", "route"], ["ip", "netns"], ["nft", "list", "ruleset"]):
        shown += subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert network.address(RANKS[0]) not in shown
    assert "policies" not in shown
