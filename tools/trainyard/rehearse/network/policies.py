"""What NetworkPolicies let through to and from each pod, as a network plugin reads them: the union of what all allow.

A selector finds pods by their labels. Pods on the host's network are nobody's peers but by address, and no policy
selects them, as with Calico and Cilium. An ipBlock holds for every address in it, those of pods too, as with Calico.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainyard.rehearse.network.addresses import DNS_POD, Addresses, holds, network
from trainyard.rehearse.network.endpoints import PROTOCOLS, is_port
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, name_of, namespace_of
from trainyard.workload.plain import entries, mapping, sequence, text
from trainyard.workload.selectors import Labels, selects

Direction = Literal["ingress", "egress"]
DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
PEERS = {"ingress": "from", "egress": "to"}

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Opening:
    """Traffic that a rule lets through."""

    peers: tuple[str, ...] | None
    """Addresses or ranges of the other end; None for any."""
    without: tuple[str, ...] = ()
    """Ranges that are taken out of `peers`."""
    protocol: str | None = None
    """None for every protocol and port."""
    ports: tuple[int, int] | None = None
    """First and last port; None for all of the protocol's."""

    def holds(self, address: str) -> bool:
        """Whether an address is one of the other end."""
        within = self.peers is None or any(holds(each, address) for each in self.peers)
        return within and not any(holds(each, address) for each in self.without)

    def carries(self, protocol: str, port: int) -> bool:
        """Whether it is open for a port."""
        return self.protocol in (None, protocol) and (self.ports is None or self.ports[0] <= port <= self.ports[1])


@dataclass(frozen=True, slots=True)
class Isolation:
    """A pod that in one direction gets only what some policy allows."""

    pod: Key
    direction: Direction
    policies: tuple[str, ...]
    """Names of those that isolate it."""
    openings: tuple[Opening, ...]


def isolations(plan: NetworkPlan, addresses: Addresses) -> tuple[Isolation, ...]:
    """Every pod and direction that policies isolate."""
    cluster = Cluster(plan, addresses)
    found = []
    for pod in cluster.pods:
        if pod.host_network:
            continue
        chosen = [policy for policy in plan.policies if _selects_pod(policy, pod)]
        for direction in DIRECTIONS:
            isolating = [policy for policy in chosen if direction in directions(policy)]
            if isolating:
                openings = [o for policy in isolating for o in cluster.openings(policy, pod, direction)]
                names = tuple(name_of(policy) for policy in isolating)
                found.append(Isolation(pod.key, direction, names, tuple(dict.fromkeys(openings))))
    return tuple(found)


def directions(policy: Mapping[str, Any]) -> frozenset[Direction]:
    """The directions in which a policy isolates, its `policyTypes` defaulted as the API server does."""
    spec = mapping(policy.get("spec"))
    types = sequence(spec.get("policyTypes"))
    if not types:
        types = ["Ingress", "Egress"] if sequence(spec.get("egress")) else ["Ingress"]
    return frozenset(each for each in DIRECTIONS if each.capitalize() in types)


def _selects_pod(policy: Mapping[str, Any], pod: PodSpot) -> bool:
    if namespace_of(policy) != pod.key[0]:
        return False
    selector = mapping(policy.get("spec")).get("podSelector")
    return selector is None or selects(selector, Labels(pod.labels)) is True


class Cluster:
    """The ends that a rule may speak of."""

    def __init__(self, plan: NetworkPlan, addresses: Addresses) -> None:
        self.pods = (*plan.pods, DNS_POD)
        self._addresses = addresses
        names = {pod.key[0] for pod in self.pods} | set(plan.namespaces)
        self._namespaces = {
            name: Labels({**plan.namespaces.get(name, {}), NAMESPACE_LABEL: name}) for name in sorted(names)
        }

    def address(self, pod: PodSpot) -> str:
        """A pod's address."""
        return self._addresses.pods[pod.key]

    def openings(self, policy: Mapping[str, Any], pod: PodSpot, direction: Direction) -> Iterator[Opening]:
        """What the rules of a policy let through to or from a pod that it selects."""
        for _, rule in entries(mapping(policy.get("spec")).get(direction)):
            for end in self.ends(policy, rule, direction):
                if end.peers != ():
                    yield from self.through(end, rule, pod, direction)

    def ends(self, policy: Mapping[str, Any], rule: Mapping[Any, Any], direction: Direction) -> list[Opening]:
        """The other ends that a rule speaks of, on any port."""
        listed = sequence(rule.get(PEERS[direction]))
        return [self._end(mapping(peer), namespace_of(policy)) for peer in listed] if listed else [Opening(None)]

    def _end(self, peer: Mapping[Any, Any], namespace: str) -> Opening:
        if "ipBlock" in peer:
            block = mapping(peer["ipBlock"])
            cidr = network(text(block.get("cidr")))
            without = [network(text(each)) for each in sequence(block.get("except"))]
            return Opening(() if cidr is None else (str(cidr),), tuple(str(each) for each in without if each))
        if not peer:
            return Opening(())
        return Opening(tuple(self._addresses.pods[pod.key] for pod in self._selected(peer, namespace)))

    def _selected(self, peer: Mapping[Any, Any], namespace: str) -> Iterator[PodSpot]:
        wanted = peer.get("namespaceSelector")
        for pod in self.pods:
            home = pod.key[0]
            near = home == namespace if wanted is None else selects(wanted, self._namespaces[home]) is True
            chosen = peer.get("podSelector") is None or selects(peer["podSelector"], Labels(pod.labels)) is True
            if near and chosen and not pod.host_network:
                yield pod

    def through(self, end: Opening, rule: Mapping[Any, Any], pod: PodSpot, direction: Direction) -> Iterator[Opening]:
        """What a rule lets through of an end that it speaks of."""
        listed = sequence(rule.get("ports"))
        if not listed:
            yield end
        for _, entry in entries(listed):
            protocol = text(entry.get("protocol")) or "TCP"
            port, last = entry.get("port"), entry.get("endPort")
            if protocol not in PROTOCOLS:
                continue
            if port is None:
                yield Opening(end.peers, end.without, protocol)
            elif isinstance(port, int):
                last = last if isinstance(last, int) else port
                if is_port(port) and is_port(last) and port <= last:
                    yield Opening(end.peers, end.without, protocol, (port, last))
            elif direction == "ingress":
                number = pod.ports.get((protocol, port))
                if number is not None:
                    yield Opening(end.peers, end.without, protocol, (number, number))
            else:
                yield from self._named(end, protocol, port)

    def _named(self, end: Opening, protocol: str, name: str) -> Iterator[Opening]:
        """A port by its name, which is another number on each pod that is dialled."""
        for other in self.pods:
            number = other.ports.get((protocol, name))
            address = self._addresses.pods[other.key]
            if number is not None and not other.host_network and end.holds(address):
                yield Opening((address,), (), protocol, (number, number))
