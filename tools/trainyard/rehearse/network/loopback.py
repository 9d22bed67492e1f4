"""Pods on one loopback interface, each with an address of its own: what is left where no router can be made.

The interface is in a network namespace that has no other, so pods reach neither this machine nor anything beyond it.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainyard.errors import Fault
from trainyard.rehearse.network.addresses import Addresses, allocate
from trainyard.rehearse.network.base import Network
from trainyard.rehearse.network.names import DOMAIN, service_name
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, Waiting

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
UNCHECKED = (
    "NetworkPolicies: nothing is dropped",
    "names: they are written as addresses into variables, arguments and files, and not resolved",
    "readiness: a Service leads to its pods before they are ready",
    "ports: two pods cannot listen on the same port of all addresses, which they can in the cluster",
    "Services: those with a virtual address lead to their first pod, on the port that is dialled",
    "bandwidth, latency and further network interfaces",
)


class LoopbackNetwork(Network):
    """Addresses of 127.0.0.0/8. Made by open_network."""

    strict = False

    def __init__(self, plan: NetworkPlan, folder: Path, reason: str) -> None:
        super().__init__(plan, _on_loopback(plan), folder, {pod.key: 0 for pod in plan.pods})
        self._held.order("loopback", namespace=0)
        self.unchecked = (f"the network is one loopback interface for all pods, since {reason}", *UNCHECKED)
        self._names = {pod.key: dict(self._seen_by(pod)) for pod in plan.pods}
        for pod in plan.pods:  # programs make names of their own, as torchrun does of a host's
            with self.hosts(pod).open("a") as file:
                file.writelines(f"{address}\t{name}\n" for name, address in self._names[pod.key].items())

    def environment(self, pod: PodSpot) -> dict[str, str]:
        return {**super().environment(pod), **dict.fromkeys(_INTERFACES, "lo")}

    def localise(self, pod: PodSpot, text: str) -> str:
        names = self._names[pod.key]
        return _NAME.sub(lambda found: names.get(found[0].lower(), found[0]), text)

    def cut(self, a: PodSpot, b: PodSpot) -> None:
        raise Fault(f"{a.name} and {b.name} cannot be cut off from each other: this needs network namespaces")

    def join(self, a: PodSpot, b: PodSpot) -> None:
        """Nothing is ever cut."""

    def waiting(self) -> tuple[Waiting, ...]:
        return ()

    def _follow(self) -> None:
        """Names are written before any pod starts."""

    def _seen_by(self, pod: PodSpot) -> Iterator[tuple[str, str]]:
        """Names as the pod would write them, with the address that each stands for.

        A name of one label may be an ordinary word, so it counts only where it names one pod.
        """
        for service in self._services:
            for other in service.pods:
                if service.headless and other.hostname and other.subdomain == service.name:
                    full = f"{other.hostname}.{service_name(service.key)}"
                    yield from self._written(full, pod, other)
            if len(service.pods) == 1 or (service.pods and not service.headless):
                yield from self._written(service_name(service.key), pod, service.pods[0])

    def _written(self, full: str, pod: PodSpot, other: PodSpot) -> Iterator[tuple[str, str]]:
        address = self.address(other)
        ends = [f".{DOMAIN}", f".svc.{DOMAIN}"]
        if other.key[0] == pod.key[0]:
            ends.append(f".{pod.key[0]}.svc.{DOMAIN}")
        yield from ((name, address) for name in (full, *(full.removesuffix(end) for end in ends)))


def _on_loopback(plan: NetworkPlan) -> Addresses:
    given = allocate(plan)
    numbers = enumerate(sorted(set(given.pods.values())), start=1)
    local = {address: f"127.77.{number // 250}.{number % 250 + 1}" for number, address in numbers}
    pods: dict[Key, str] = {key: local[address] for key, address in given.pods.items()}
    return replace(given, pods=pods)
