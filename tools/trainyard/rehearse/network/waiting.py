"""Who waits for whom: sockets that get no answer, what the router dropped, and names that were asked for in vain."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from trainyard.rehearse.network.addresses import DNS_POD, Addresses
from trainyard.rehearse.network.endpoints import Service
from trainyard.rehearse.network.explain import Names, names_in_vain
from trainyard.rehearse.network.names import searches
from trainyard.rehearse.network.nearest import Near, nearest
from trainyard.rehearse.network.plan import PodSpot, Waiting, name_of, namespace_of
from trainyard.rehearse.network.policies import Cluster, Direction, Isolation

_SYN_SENT = "02"

Dialled = tuple[str, str, str, int]
"""Address of the source and of the destination, protocol, port."""
Dropped = tuple[str, tuple[str, ...], tuple[str, tuple[str | int, ...]] | None]
"""Why a connection is dropped, the policies that have it so, and the rule that comes nearest to letting it through."""


@dataclass(frozen=True, slots=True)
class UnansweredName:
    """A name asked for in vain."""

    address: str
    server: str
    """cluster or node."""
    name: str
    code: str


@dataclass(frozen=True, slots=True)
class NetworkState:
    """What the network shows of itself at one moment."""

    hanging: frozenset[Dialled]
    """Sockets that have sent a SYN and wait."""
    sets: Mapping[str, frozenset[Dialled]]
    """By the router's set: cut_dropped, egress_dropped, ingress_dropped, refused, unserved, outside."""
    failed: tuple[UnansweredName, ...]
    answered: tuple[UnansweredName, ...]


def hanging(address: str, tables: Iterable[str]) -> Iterator[Dialled]:
    """Connections that wait for an answer, of the texts of /proc/net/tcp and tcp6 in a pod."""
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _SYN_SENT:
                target, port = fields[2].split(":")
                yield address, _address(target), "TCP", int(port, 16)


def _address(word: str) -> str:
    """IPv4 address of the hexadecimal words that Linux prints, the last of which is it where IPv6 maps it."""
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(word[-8:])))


def router_sets(document: str) -> dict[str, frozenset[Dialled]]:
    """The sets in what `nft --json list table` prints."""
    found = {}
    for item in json.loads(document)["nftables"]:
        if "set" in item:
            elements = (_values(element) for element in item["set"].get("elem", ()))
            found[item["set"]["name"]] = frozenset(_dialled(values) for values in elements if len(values) > 2)
    return found


def _values(element: Any) -> list[Any]:
    inner = element["elem"]["val"] if "elem" in element else element
    return list(inner["concat"])


def _dialled(values: list[Any]) -> Dialled:
    source, target, *rest = values
    protocol = rest[0].upper() if len(rest) == 2 else "TCP"
    return source, target, protocol, int(rest[-1])


@dataclass(frozen=True, slots=True)
class Reader:
    """Turns what is observed into what a person can act on."""

    pods: tuple[PodSpot, ...]
    addresses: Addresses
    services: tuple[Service, ...]
    isolations: tuple[Isolation, ...]
    names: Names

    def read(self, seen: NetworkState) -> tuple[Waiting, ...]:
        """Everything that waits, each once."""
        found = [*self._connections(seen), *self._unresolved(seen)]
        return tuple(sorted(dict.fromkeys(found), key=lambda each: (each.pod, each.protocol, each.peer, each.port)))

    def _connections(self, seen: NetworkState) -> Iterator[Waiting]:
        told = set()
        for dialled in sorted(seen.hanging):
            behind = self._behind(dialled)
            told |= {*behind, dialled}
            dropped = next((found for each in behind if (found := self._dropped(each, seen))), None)
            yield self._waiting(dialled, "SYN-SENT", *(dropped or ("no answer comes", (), None)))
        noted = {each for name in ("cut", "egress", "ingress") for each in seen.sets[f"{name}_dropped"]}
        for dialled in sorted(noted - told):
            yield self._waiting(dialled, "DROPPED", *(self._dropped(dialled, seen) or ("", (), None)))
        for dialled in sorted(seen.sets["refused"]):
            yield self._waiting(dialled, "REFUSED", f"nothing listens there on {dialled[2]} {dialled[3]}")
        for dialled in sorted(seen.sets["unserved"]):
            if missing := self._unserved(dialled):
                yield self._waiting(dialled, "REFUSED", missing)
        for dialled in sorted(seen.sets["outside"]):
            yield self._waiting(dialled, "UNREACHABLE", "the address lies outside of the rehearsed cluster")

    def _behind(self, dialled: Dialled) -> list[Dialled]:
        """What a connection to a Service's virtual address may have become."""
        source, target, protocol, port = dialled
        if target == self.addresses.dns:
            return [(source, self.addresses.pods[DNS_POD.key], protocol, port)]
        return [
            (source, self.addresses.pods[pod.key], protocol, number)
            for service in self.services
            if self.addresses.services.get(service.key) == target
            for each in service.ports
            if (each.protocol, each.number) == (protocol, port)
            for pod in service.pods
            if (number := each.on(pod)) is not None
        ] or [dialled]

    def _dropped(self, dialled: Dialled, seen: NetworkState) -> Dropped | None:
        """Why the router drops it, and the policies that have it do so."""
        _, _, protocol, port = dialled
        if dialled in seen.sets["cut_dropped"]:
            return "the rehearsal has cut these two off from each other", (), None
        if dialled in seen.sets["egress_dropped"]:
            return self._closed(f"no egress rule lets {protocol} {port} out of", dialled, "egress")
        if dialled in seen.sets["ingress_dropped"]:
            return self._closed(f"no ingress rule lets {protocol} {port} in to", dialled, "ingress")
        return None

    def _closed(self, what: str, dialled: Dialled, direction: Direction) -> Dropped:
        address = dialled[0] if direction == "egress" else dialled[1]
        policies = sorted(
            name
            for each in self.isolations
            if self.addresses.pods[each.pod] == address and each.direction == direction
            for name in each.policies
        )
        isolate = "network policy isolates" if len(policies) == 1 else "network policies isolate"
        told = f"{what} {self._who(address)}: {isolate} it: {', '.join(policies)}"
        near = self._nearest(policies, dialled, direction)
        if near is None:
            return told, tuple(policies), None
        return f"{told}; {near.why}", tuple(policies), (near.policy, near.path)

    def _nearest(self, policies: Collection[str], dialled: Dialled, direction: Direction) -> Near | None:
        source, target, protocol, port = dialled
        ends = self._pod(source), self._pod(target)
        pod, peer = ends if direction == "egress" else reversed(ends)
        if pod is None or peer is None:
            return None
        plan = self.names.plan
        held = [each for each in plan.policies if name_of(each) in policies and namespace_of(each) == pod.key[0]]
        return nearest(Cluster(plan, self.addresses), held, pod, peer, direction, protocol, port)

    def _unserved(self, dialled: Dialled) -> str:
        _, target, protocol, port = dialled
        for service in self.services:
            if self.addresses.services.get(service.key) != target:
                continue
            ports = [each for each in service.ports if (each.protocol, each.number) == (protocol, port)]
            if not ports:
                return f"Service {service.name} has no port {protocol} {port}"
            if not service.selects:
                return f"Service {service.name} has no selector, and so no pods"
            behind = service.endpoints(self.names.ready, self.names.gone)
            if not behind:
                return f"no pod is ready behind Service {service.name}"
            if all(each.on(pod) is None for each in ports for pod in behind):
                return f"no pod behind Service {service.name} has a port named {ports[0].target}"
            return ""
        return "nothing of the rehearsal stands behind this Service"

    def _unresolved(self, seen: NetworkState) -> Iterator[Waiting]:
        for pod in self.pods:
            address = self.addresses.pods[pod.key]
            failed = {each.name: each.server for each in seen.failed if each.address == address}
            answered = {each.name for each in seen.answered if each.address == address}
            for name in names_in_vain(failed.keys(), answered, searches(pod)):
                why = self.names.why_not(name, pod)
                if failed.get(name) == "node":
                    why = f"dnsPolicy {pod.dns_policy} asks the node's DNS servers, which know no name of the cluster"
                yield Waiting(pod.key, name, "", 53, "DNS", "NXDOMAIN", why)

    def _waiting(
        self,
        dialled: Dialled,
        state: str,
        why: str,
        policies: tuple[str, ...] = (),
        rule: tuple[str, tuple[str | int, ...]] | None = None,
    ) -> Waiting:
        source, target, protocol, port = dialled
        pod = self._pod(source)
        dialler = pod.key if pod else ("", source)
        return Waiting(dialler, self._who(target), target, port, protocol, state, why, policies, rule)

    def _pod(self, address: str) -> PodSpot | None:
        return next((pod for pod in (*self.pods, DNS_POD) if self.addresses.pods[pod.key] == address), None)

    def _who(self, address: str) -> str:
        pod = self._pod(address)
        if pod is not None:
            return "/".join(pod.key)
        services = (f"{'/'.join(key)} (Service)" for key, each in self.addresses.services.items() if each == address)
        nodes = (f"{name} (node)" for name, each in self.addresses.nodes.items() if each == address)
        return next(chain(services, nodes), address)
