"""What a rehearsal asks of the network, and what the network tells it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.errors import Fault

DEFAULT_NAMESPACE = "default"

_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")

Key = tuple[str, str]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class PodSpot:
    """A pod, as the network sees it."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    node: str
    """Name of the node that it runs on. Pods on the host's network share that of their node."""
    hostname: str = ""
    """`spec.hostname`; empty where the pod has none, and so no DNS name of its own."""
    subdomain: str = ""
    host_network: bool = False
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Protocol and name of a container port to its number."""
    extra_networks: tuple[str, ...] = ()
    """Networks beside the cluster's own, as Multus writes them: `name`, or `name@interface`."""
    dns_policy: str = "ClusterFirst"
    dns_config: Mapping[str, Any] = field(default_factory=dict)
    host_aliases: tuple[Mapping[str, Any], ...] = ()
    service_links: bool = True
    """`enableServiceLinks`: whether its containers have variables of the Services in its namespace."""

    @property
    def key(self) -> Key:
        """What names the pod."""
        return self.namespace or DEFAULT_NAMESPACE, self.name


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Pods, and the objects of the cluster that decide who reaches whom and by what name."""

    pods: tuple[PodSpot, ...]
    services: tuple[Mapping[str, Any], ...] = ()
    policies: tuple[Mapping[str, Any], ...] = ()
    """NetworkPolicies of networking.k8s.io/v1."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of each namespace; its name as a label is added."""
    bits_per_second: int | None = None
    """Speed of each pod's links, each way; None leaves them as fast as the machine is."""
    latency: float = 0.0
    """Seconds that what a pod sends takes longer than on this machine, where the kernel has netem."""
    interface: str = "eth0"
    """Name of the pods' network interface, and of the nodes'."""

    def __post_init__(self) -> None:
        """Fault where a network interface has a name that Linux does not take: names end up in commands of ip."""
        further = (each.partition("@")[2] for pod in self.pods for each in pod.extra_networks)
        for name in (self.interface, *filter(None, further)):
            if not _INTERFACE.fullmatch(name):
                raise Fault(f"{name!r} cannot be the name of a network interface")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A connection that does not come about, or a name that does not resolve."""

    pod: Key
    peer: str
    """The pod (`namespace/name`) or Service that is dialled, or the name that was asked for."""
    address: str
    """Address that is dialled; empty for a name."""
    port: int
    protocol: str
    """TCP, UDP, SCTP, or DNS for a name that does not resolve."""
    state: str
    """SYN-SENT, DROPPED (UDP), REFUSED, or the DNS answer: NXDOMAIN, REFUSED, NODATA."""
    why: str
    """The likely cause in a few words."""
    policies: tuple[str, ...] = ()
    """Names of the NetworkPolicies that isolate the pod whose side dropped the connection."""
    rule: tuple[str, tuple[str | int, ...]] | None = None
    """Of these policies the one with the rule that comes nearest to letting it through, and where in it that fails."""


def namespace_of(item: Mapping[str, Any]) -> str:
    """Namespace of an object as rendered."""
    return (item.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE


def name_of(item: Mapping[str, Any]) -> str:
    """Name of an object as rendered."""
    return (item.get("metadata") or {}).get("name") or ""
