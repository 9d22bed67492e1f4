"""Of many policies the rule that is to be mended is the one that nearly lets a connection through, if there is one."""

from typing import Any

import pytest

from tests.rehearse.network.support import JOB, plan, pod, policy
from trainyard.rehearse.network.addresses import DNS_POD, allocate
from trainyard.rehearse.network.nearest import nearest
from trainyard.rehearse.network.plan import PodSpot
from trainyard.rehearse.network.policies import Cluster, Direction

RANKS = pod(0), pod(1)
OWN: dict[str, Any] = {"podSelector": {"matchLabels": JOB}}
OTHERS: dict[str, Any] = {"podSelector": {"matchLabels": {"trainyard.dev/job": "gtp"}}}
DNS: dict[str, Any] = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
NO_DNS: dict[str, Any] = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "coredns"}}}
DENY = policy("deny", podSelector={}, policyTypes=["Ingress", "Egress"])
METRICS = policy("metrics", podSelector={}, ingress=[{"ports": [{"port": 9400}]}])
TCP_53 = {"protocol": "TCP", "port": 53}


@pytest.mark.parametrize(
    ("direction", "peer", "protocol", "port", "rules", "path", "why"),
    [
        (
            "ingress",
            RANKS[1],
            "TCP",
            29400,
            [{"from": [OWN], "ports": [{"port": 29401, "endPort": 65535}]}],
            ("spec", "ingress", 0, "ports"),
            "rule lets gpt-1-x7k2p through on other ports",
        ),
        (
            "ingress",
            RANKS[1],
            "TCP",
            29400,
            [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 22}]}, {"from": [OTHERS]}],
            ("spec", "ingress", 0, "ports"),
            "rule lets gpt-1-x7k2p through on other ports",
        ),
        (
            "ingress",
            RANKS[1],
            "TCP",
            29400,
            [{"from": [OTHERS]}],
            ("spec", "ingress", 0, "from"),
            "rule lets others than gpt-1-x7k2p through",
        ),
        (
            "egress",
            DNS_POD,
            "UDP",
            53,
            [{"to": [OWN]}, {"to": [DNS], "ports": [TCP_53]}],
            ("spec", "egress", 1, "ports"),
            "rule lets coredns through on other ports",
        ),
        (
            "egress",
            DNS_POD,
            "TCP",
            53,
            [{"to": [OWN]}, {"to": [NO_DNS], "ports": [TCP_53]}],
            ("spec", "egress", 1, "to"),
            "rule opens TCP 53 for others than coredns",
        ),
        (
            "ingress",
            RANKS[1],
            "TCP",
            29400,
            [],
            None,
            "",
        ),
        ("egress", DNS_POD, "UDP", 53, [{"to": [OWN]}], None, ""),
    ],
    ids=["port", "port-before-peer", "peer", "protocol", "dns-label", "no-rule-but-for-all", "no-rule-for-dns"],
)
def test_the_nearest_rule(
    direction: Direction,
    peer: PodSpot,
    protocol: str,
    port: int,
    rules: list[dict[str, Any]],
    path: tuple[str | int, ...] | None,
    why: str,
) -> None:
    held = [DENY, METRICS, policy("rule", podSelector={}, **{direction: rules})]
    given = plan(*RANKS, policies=tuple(held))

    near = nearest(Cluster(given, allocate(given)), held, RANKS[0], peer, direction, protocol, port)

    assert (None if near is None else near.path, "" if near is None else near.why) == (path, why)
