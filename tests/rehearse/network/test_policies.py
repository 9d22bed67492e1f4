"""Policies at random: what the kernel lets through is what the specification says, and what the linter predicts."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.rehearse.network.probes import Probe, Probes
from tests.rehearse.network.support import plan
from trainyard.objects.objects import Object
from trainyard.rehearse.network import Network, PodSpot, open_network
from trainyard.rehearse.network.addresses import DNS_POD
from trainyard.rehearse.network.strict import StrictNetwork
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.network import reaches, reaches_dns

pytestmark = pytest.mark.root

NAMESPACES = {"research": {"team": "research", "tier": "gold"}, "vision": {"team": "vision"}, "kube-system": {}}


def _pod(name: str, namespace: str, metrics: int, labels: dict[str, str], **details: Any) -> PodSpot:
    ports = {("TCP", "metrics"): metrics, ("UDP", "gossip"): 7001}
    return PodSpot(namespace, name, labels, node=f"node-of-{name}", ports=ports, **details)


PODS = (
    _pod("a0", "research", 9400, {"job": "a", "index": "0"}),
    _pod("a1", "research", 9401, {"job": "a", "index": "1"}),
    _pod("b0", "research", 9400, {"job": "b"}),
    _pod("v0", "vision", 9401, {"job": "a"}),
    replace(_pod("h0", "research", 9400, {"job": "a"}, host_network=True), node="node-of-a0"),
)
PORTS = (("TCP", 7000), ("TCP", 7001), ("TCP", 9400), ("TCP", 9401), ("UDP", 7001))
DNS_PORTS = (("UDP", 53), ("TCP", 53))
PROBES: tuple[Probe, ...] = (
    *((a.name, b.name, *port) for a in PODS for b in PODS if a is not b for port in PORTS),
    *((a.name, DNS_POD.name, *port) for a in PODS for port in DNS_PORTS),
)

_labels = st.fixed_dictionaries({}, optional={"job": st.sampled_from("abc"), "index": st.sampled_from("01")})
_expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["job", "index", "absent"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from("ab01"), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["job", "index"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
)
_selectors: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"matchLabels": _labels}),
    st.fixed_dictionaries({"matchExpressions": st.lists(_expressions, min_size=1, max_size=2)}),
)
_of_namespaces: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"matchLabels": st.sampled_from([{"team": "vision"}, {"tier": "gold"}])}),
    st.just({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["research"]}]}),
)
_blocks = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "10.244.1.0/31"},
        {"cidr": "10.244.1.0/24", "except": ["10.244.1.1/32", "10.244.1.2/32"]},
        {"cidr": "172.18.0.0/16"},
        {"cidr": "fd00::/8"},
    ]
)
_peers = st.one_of(
    st.fixed_dictionaries({"podSelector": _selectors}),
    st.fixed_dictionaries({"namespaceSelector": _of_namespaces}),
    st.fixed_dictionaries({"podSelector": _selectors, "namespaceSelector": _of_namespaces}),
    st.fixed_dictionaries({"ipBlock": _blocks}),
    st.just({"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}),
)
_ports = st.one_of(
    st.fixed_dictionaries({"port": st.sampled_from([7000, 7001, 9400, "metrics", "absent"])}),
    st.fixed_dictionaries({"port": st.just(7000), "endPort": st.sampled_from([7001, 9400])}),
    st.fixed_dictionaries({"protocol": st.just("UDP")}, optional={"port": st.sampled_from([7001, "gossip"])}),
    st.sampled_from([{"protocol": "TCP"}, {"protocol": "SCTP", "port": 7000}]),
    st.sampled_from([{"protocol": "UDP", "port": 53}, {"protocol": "UDP", "port": "dns"}, {"port": 53}]),
)


def _rules(side: str) -> st.SearchStrategy[dict[str, Any]]:
    peers, ports = st.lists(_peers, min_size=1, max_size=2), st.lists(_ports, min_size=1, max_size=2)
    narrow = st.fixed_dictionaries({side: peers, "ports": ports})
    wide: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {side: []}, {"ports": []}])
    return st.one_of(
        narrow, narrow, st.fixed_dictionaries({side: peers}), st.fixed_dictionaries({"ports": ports}), wide
    )


_policies = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": st.just("p"), "namespace": st.sampled_from(["research", "vision"])}),
        "spec": st.fixed_dictionaries(
            {"podSelector": _selectors},
            optional={
                "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
                "ingress": st.lists(_rules("from"), max_size=2),
                "egress": st.lists(_rules("to"), max_size=2),
            },
        ),
    }
)


def _policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "research"}, "spec": {"podSelector": {}, **spec}}


_EXCEPT = {"cidr": "10.244.1.0/24", "except": ["10.244.1.1/32", "10.244.1.2/32"]}
_NAMED = _policy(egress=[{"to": [{"podSelector": {"matchLabels": {"job": "b"}}}], "ports": [{"port": "metrics"}]}])


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with open_network(plan(*PODS, namespaces=NAMESPACES), strict=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def probes(network: Network) -> Probes:
    return Probes(network, PODS, PORTS, (DNS_POD,))


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@example(policies=[_policy(ingress=[{"from": [{"ipBlock": _EXCEPT}]}])])
@example(policies=[_policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": _EXCEPT}], "ports": [{"port": 7000}]}])])
@example(policies=[_NAMED])
@example(policies=[_policy(egress=[{"to": [{"ipBlock": _EXCEPT}], "ports": [{"port": "metrics"}]}])])
@example(policies=[_policy(ingress=[{"ports": [{"port": 7000, "endPort": 9400}]}])])
@given(policies=st.lists(_policies, min_size=1, max_size=3))
def test_the_kernel_lets_through_what_the_policies_say(
    network: StrictNetwork, probes: Probes, policies: list[dict[str, Any]]
) -> None:
    network.enforce(tuple(policies))
    found = probes.dial(PROBES)
    for probe, dropped in found.items():
        source, target = (next(pod for pod in (*PODS, DNS_POD) if pod.name == name) for name in probe[:2])
        protocol, port = probe[2:]
        said = _verdict(policies, network, source, target, protocol, port)
        seen = "passes" if dropped is None else "egress" if "no egress rule" in dropped.why else "ingress"
        assert seen == said, f"{source.name} to {target.name} {protocol} {port}"
        predicted = _predicted(policies, source, target, protocol, port)
        assert predicted in (None, seen == "passes"), f"the linter on {source.name} to {target.name} {protocol} {port}"


def _verdict(
    policies: list[dict[str, Any]], network: Network, source: PodSpot, target: PodSpot, protocol: str, port: int
) -> str:
    """The specification of NetworkPolicy, one packet at a time: passes, or the direction that stops it."""
    if source.node == target.node and source.host_network != target.host_network:
        return "passes"
    for pod, peer, direction in ((source, target, "egress"), (target, source, "ingress")):
        mine = [p for p in policies if _isolates(p, pod, direction)]
        if mine and not any(_lets(p, direction, network, peer, target, protocol, port) for p in mine):
            return direction
    return "passes"


def _isolates(policy: dict[str, Any], pod: PodSpot, direction: str) -> bool:
    spec = policy["spec"]
    types = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    near = policy["metadata"]["namespace"] == pod.namespace and not pod.host_network
    return near and direction.capitalize() in types and _selected(spec["podSelector"], pod.labels)


def _lets(
    policy: dict[str, Any], direction: str, network: Network, peer: PodSpot, target: PodSpot, protocol: str, port: int
) -> bool:
    side = "from" if direction == "ingress" else "to"
    for rule in policy["spec"].get(direction, []):
        peers, ports = rule.get(side), rule.get("ports")
        if (not peers or any(_is_peer(each, policy, network, peer) for each in peers)) and (
            not ports or any(_is_port(each, target, protocol, port) for each in ports)
        ):
            return True
    return False


def _is_peer(rule: dict[str, Any], policy: dict[str, Any], network: Network, peer: PodSpot) -> bool:
    if "ipBlock" in rule:
        address = ip_address(network.address(peer))
        block = rule["ipBlock"]
        return address in ip_network(block["cidr"]) and not any(
            address in ip_network(each) for each in block.get("except", [])
        )
    if peer.host_network:
        return False
    labels = {**NAMESPACES[peer.namespace], "kubernetes.io/metadata.name": peer.namespace}
    if "namespaceSelector" in rule:
        near = _selected(rule["namespaceSelector"], labels)
    else:
        near = peer.namespace == policy["metadata"]["namespace"]
    return near and _selected(rule.get("podSelector", {}), peer.labels)


def _is_port(rule: dict[str, Any], target: PodSpot, protocol: str, port: int) -> bool:
    if rule.get("protocol", "TCP") != protocol:
        return False
    first = rule.get("port")
    if isinstance(first, str):
        return not target.host_network and target.ports.get((protocol, first)) == port
    return first is None or first <= port <= rule.get("endPort", first)


def _selected(selector: dict[str, Any], labels: Any) -> bool:
    def met(each: dict[str, Any]) -> bool:
        value = labels.get(each["key"])
        return {
            "In": value in each.get("values", ()),
            "NotIn": value not in each.get("values", ()),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[each["operator"]]

    wanted = selector.get("matchLabels", {})
    return all(labels.get(k) == v for k, v in wanted.items()) and all(map(met, selector.get("matchExpressions", ())))


def _predicted(
    policies: list[dict[str, Any]], source: PodSpot, target: PodSpot, protocol: str, port: int
) -> bool | None:
    """What the linter says of two pods of a job; it knows jobs of one namespace, on nodes that it does not know."""
    if source.namespace != target.namespace and target is not DNS_POD:
        return None
    if source.host_network or target.host_network:
        return None
    data = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": k, "labels": v}} for k, v in NAMESPACES.items()
    ]
    data += [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", **policy} for policy in policies]
    objects = tuple(Object.of(each, index) for index, each in enumerate(data))
    job = Object.of({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": source.namespace}}, len(data))
    if target is DNS_POD:
        alone = _pod_set(job, source)
        return reaches_dns(Workload(job, (alone,), objects), alone, protocol).allowed
    ends = _pod_set(job, source), _pod_set(job, target)
    workload = Workload(job, ends, objects)
    return reaches(workload, *ends, range(port, port + 1), protocol).allowed


def _pod_set(job: Object, pod: PodSpot) -> PodSet:
    ports = [{"name": n, "protocol": p, "containerPort": number} for (p, n), number in pod.ports.items()]
    spot = job.at("spec", "template")
    container = Container("main", spot, {"ports": ports}, "", (), {}, None, {}, {})
    return PodSet(pod.name, Setting(1, spot), spot, (), None, pod.labels, (container,), (), {})
