"""The rule that comes nearest to letting a connection through which no rule lets through: there it is to be mended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.rehearse.network.addresses import DNS_POD
from trainyard.rehearse.network.plan import PodSpot, name_of
from trainyard.rehearse.network.policies import PEERS, Cluster, Direction, Opening
from trainyard.workload.plain import entries, mapping, sequence

_PORTS, _PEERS_OF_PORT, _PEERS_OF_ALL = range(3)


@dataclass(frozen=True, slots=True)
class Near:
    """A rule that lets through something like it."""

    distance: int
    policy: str
    path: tuple[str | int, ...]
    """Where in the policy the connection is not meant."""
    why: str


def nearest(
    cluster: Cluster,
    policies: Sequence[Mapping[str, Any]],
    pod: PodSpot,
    peer: PodSpot,
    direction: Direction,
    protocol: str,
    port: int,
) -> Near | None:
    """Of policies that isolate `pod` the nearest rule; None where none is about this peer or port."""
    found = [near for policy in policies for near in _of(cluster, policy, pod, peer, direction, protocol, port)]
    return min(found, key=lambda near: near.distance, default=None)


def _of(
    cluster: Cluster,
    policy: Mapping[str, Any],
    pod: PodSpot,
    peer: PodSpot,
    direction: Direction,
    protocol: str,
    port: int,
) -> Iterator[Near]:
    name, side, address = name_of(policy), PEERS[direction], cluster.address(peer)
    for index, rule in entries(mapping(policy.get("spec")).get(direction)):
        with_peer = any(end.holds(address) for end in cluster.ends(policy, rule, direction))
        with_port = any(
            each.carries(protocol, port) and each.holds(address)
            for each in cluster.through(Opening(None), rule, pod, direction)
        )
        if with_peer and sequence(rule.get(side)):
            why = f"{name} lets {peer.name} through on other ports"
            yield Near(_PORTS, name, ("spec", direction, index, "ports"), why)
        elif with_port and sequence(rule.get("ports")):
            why = f"{name} opens {protocol} {port} for others than {peer.name}"
            yield Near(_PEERS_OF_PORT, name, ("spec", direction, index, side), why)
        elif with_port and peer is not DNS_POD:
            why = f"{name} lets others than {peer.name} through"
            yield Near(_PEERS_OF_ALL, name, ("spec", direction, index, side), why)
