"""A network as strict as the cluster's: a namespace for each pod, a router between them that enforces the policies.

The router has a link to each pod and to each node that pods share, and the only way from one to the other leads
through it, as with Calico. Nothing of this is visible to the host's own network.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.rehearse.network import links, waiting
from trainyard.rehearse.network.addresses import DNS_POD, allocate
from trainyard.rehearse.network.base import Network
from trainyard.rehearse.network.explain import Names
from trainyard.rehearse.network.firewall import policy_table, service_table
from trainyard.rehearse.network.held_namespaces import NoRight
from trainyard.rehearse.network.limits import unchecked
from trainyard.rehearse.network.names import records
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, Waiting
from trainyard.rehearse.network.policies import Isolation, isolations

_ROUTER = 0
_NO_NETEM = "qdisc kind is unknown"
"""What tc says of a kernel without it."""


class StrictNetwork(Network):
    """Namespaces, policies and DNS. Made by open_network."""

    strict = True

    def __init__(self, plan: NetworkPlan, folder: Path) -> None:
        super().__init__(plan, allocate(plan), folder, _numbers(plan))
        self._isolations: tuple[Isolation, ...] = ()
        self._rules_of_services = ""
        try:
            self._ends = {number: (key, self._held.path(number)) for key, number in self._numbers.items()}
            self._build()
            self._follow()
            self.unchecked = unchecked(plan, latency=self._delay())
        except BaseException:
            self._held.close()
            raise

    def localise(self, pod: PodSpot, text: str) -> str:  # noqa: ARG002
        return text

    def cut(self, a: PodSpot, b: PodSpot) -> None:
        self._rules(f"add element ip policies cut {self._both_ways(a, b)}\n")

    def join(self, a: PodSpot, b: PodSpot) -> None:
        way = self._both_ways(a, b)
        known = f"add element ip policies cut {way}\n"  # nft refuses to delete what is not there
        self._rules(f"{known}delete element ip policies cut {way}\nflush set ip policies cut_dropped\n")

    def enforce(self, policies: tuple[Mapping[str, Any], ...]) -> None:
        """Replace the NetworkPolicies of the plan by others. Connections that exist go on."""
        self._plan = replace(self._plan, policies=policies)
        self._isolations = isolations(self._plan, self._addresses)
        self._rules(policy_table(self._plan, self._addresses, self._isolations))

    def waiting(self) -> tuple[Waiting, ...]:
        asked = self._held.order("asked")
        hanging: set[waiting.Dialled] = set()
        for number, (key, _) in self._ends.items():
            tables = self._held.order("read", namespace=number, files=["tcp", "tcp6"])
            hanging.update(waiting.hanging(self._addresses.pods[key], tables))
        sets = self._held.run(_ROUTER, ["nft", "--json", "list", "table", "ip", "policies"], "")
        seen = waiting.NetworkState(
            frozenset(hanging),
            waiting.router_sets(sets),
            tuple(waiting.UnansweredName(*each) for each in asked["failed"]),
            tuple(waiting.UnansweredName(*each) for each in asked["answered"]),
        )
        names = Names(self._plan, self._services, self._ready, self._gone)
        return waiting.Reader(self._plan.pods, self._addresses, self._services, self._isolations, names).read(seen)

    def _both_ways(self, a: PodSpot, b: PodSpot) -> str:
        one, other = self.address(a), self.address(b)
        return f"{{ {one} . {other}, {other} . {one} }}"

    def _follow(self) -> None:
        zone = records(self._plan, self._services, self._addresses, self._ready, self._gone)
        self._held.order("zone", zone=zone)
        rules = service_table(self._services, self._addresses, self._ready, self._gone)
        if rules != self._rules_of_services:
            self._rules(rules)
            self._rules_of_services = rules

    def _build(self) -> None:
        self._set(_ROUTER, "ip_forward", 1)
        self._batch("ip", _ROUTER, links.router_links(self._plan, self._addresses, self._ends))
        self._batch("tc", _ROUTER, links.router_speed(self._plan, self._addresses, self._ends))
        for number, (key, _) in self._ends.items():
            self._batch("ip", number, links.pod_links(self._plan, self._addresses, key))
            self._batch("tc", number, links.pod_speed(self._plan, self._addresses, key))
            self._set(number, "ip_unprivileged_port_start", 0)  # as containerd and CRI-O do, so that sshd has port 22
        self.enforce(self._plan.policies)
        server = self._numbers[DNS_POD.key]
        cluster, node = self._addresses.pods[DNS_POD.key], self._addresses.node_resolver
        self._held.order("listen", namespace=server, cluster=cluster, node=node)

    def _set(self, number: int, name: str, value: int) -> None:
        try:
            self._held.order("write", namespace=number, file=f"/proc/sys/net/ipv4/{name}", text=str(value))
        except Fault as reason:
            raise NoRight(str(reason)) from None

    def _delay(self) -> bool:
        """Whether the latency of the plan could be set: not every kernel has netem."""
        try:
            for number, (key, _) in self._ends.items():
                if self._plan.latency and key != DNS_POD.key:
                    self._batch("tc", number, links.pod_latency(self._plan, self._addresses, key))
        except Fault as reason:
            if _NO_NETEM not in str(reason):
                raise
            return False
        return True

    def _rules(self, text: str) -> None:
        self._held.run(_ROUTER, ["nft", "-f", "-"], text)

    def _batch(self, program: str, number: int, commands: Iterable[str]) -> None:
        text = "".join(f"{command}\n" for command in commands)
        if text:
            self._held.run(number, [program, "-batch", "-"], text)


def _numbers(plan: NetworkPlan) -> dict[Key, int]:
    """Which namespace each pod is in: its own, or its node's."""
    numbers: dict[Key, int] = {}
    of_node: dict[str, int] = {}
    following = _ROUTER + 1
    for pod in (*plan.pods, DNS_POD):
        if pod.host_network and pod.node in of_node:
            numbers[pod.key] = of_node[pod.node]
            continue
        if pod.host_network:
            of_node[pod.node] = following
        numbers[pod.key] = following
        following += 1
    return numbers
