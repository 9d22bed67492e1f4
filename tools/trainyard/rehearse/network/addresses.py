"""Addresses of the rehearsed cluster. They exist only in namespaces of its own, so the host's may be the same."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Any

from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, name_of, namespace_of
from trainyard.workload.plain import mapping, sequence, text

GATEWAY = "169.254.1.1"
"""Where every pod sends what is not its own, as Calico has it: each link of the router has this address."""
DNS_POD = PodSpot(
    namespace="kube-system",
    name="coredns",
    labels={"k8s-app": "kube-dns"},
    node="control-plane",
    ports={("UDP", "dns"): 53, ("TCP", "dns-tcp"): 53},
)
"""The cluster's DNS server, a pod like any other: policies decide who reaches it."""

_PODS = ("10.244.0.0/16", "10.42.0.0/16", "172.24.0.0/16", "192.168.0.0/16")
_SERVICES = ("10.96.0.0/16", "10.43.0.0/16", "172.25.0.0/16", "10.152.0.0/16")
_NODES = ("172.18.0.0/16", "172.26.0.0/16", "10.222.0.0/16", "192.168.0.0/16")
EXTRA_RANGE = "10.200.0.0/13"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Who has which address."""

    pods: Mapping[Key, str]
    """Of pods on the host's network it is their node's. DNS_POD is among them."""
    nodes: Mapping[str, str]
    node_resolver: str
    """The DNS server of the nodes, which knows no name of the cluster. Pods with `dnsPolicy: Default` ask it."""
    services: Mapping[Key, str]
    """Virtual addresses of Services by namespace and name; headless ones and ExternalNames have none."""
    service_range: str
    extra: Mapping[Key, tuple[tuple[str, str, str], ...]]
    """Further interfaces of a pod: the network's name, the interface's name, the address with its prefix length."""

    @property
    def dns(self) -> str:
        """The virtual address of the cluster's DNS."""
        return self.services["kube-system", "kube-dns"]


def allocate(plan: NetworkPlan) -> Addresses:
    """Addresses for a plan, from ranges that none of its ipBlocks singles out."""
    avoided = tuple(narrow_blocks(plan.policies))
    pod_range = _free(_PODS, avoided)
    node_range = _free(_NODES, (*avoided, pod_range))
    service_range = _free(_SERVICES, (*avoided, pod_range, node_range))
    names = [*sorted({pod.node for pod in plan.pods}), DNS_POD.node]
    nodes = {name: str(node_range[10 + index]) for index, name in enumerate(names)}
    pods = {}
    for index, pod in enumerate((*plan.pods, DNS_POD)):
        pods[pod.key] = nodes[pod.node] if pod.host_network else str(pod_range[256 + index])
    return Addresses(
        pods=pods,
        nodes=nodes,
        node_resolver=str(node_range[2]),
        services=_service_addresses(plan, service_range),
        service_range=str(service_range),
        extra=_extra(plan),
    )


def narrow_blocks(policies: Iterable[Mapping[str, Any]]) -> Iterable[IPv4Network]:
    """What ipBlocks single out: those of half the address space or more mean everybody, not somebody."""
    for policy in policies:
        spec = mapping(policy.get("spec"))
        for direction, side in (("ingress", "from"), ("egress", "to")):
            for rule in sequence(spec.get(direction)):
                for peer in sequence(mapping(rule).get(side)):
                    block = network(text(mapping(mapping(peer).get("ipBlock")).get("cidr")))
                    if block is not None and block.prefixlen > 8:
                        yield block


def network(cidr: str) -> IPv4Network | None:
    """An IPv4 range; None for one of IPv6, which nobody here has, or none at all."""
    try:
        parsed = ip_network(cidr, strict=False)
    except ValueError:
        return None
    return parsed if isinstance(parsed, IPv4Network) else None


def holds(cidr: str, address: str) -> bool:
    """Whether an address lies in a range."""
    found = network(cidr)
    return found is not None and IPv4Address(address) in found


def _free(candidates: tuple[str, ...], avoided: Iterable[IPv4Network]) -> IPv4Network:
    ranges = [IPv4Network(candidate) for candidate in candidates]
    return next((each for each in ranges if not any(each.overlaps(other) for other in avoided)), ranges[0])


def _service_addresses(plan: NetworkPlan, service_range: IPv4Network) -> dict[Key, str]:
    found = {("default", "kubernetes"): str(service_range[1]), ("kube-system", "kube-dns"): str(service_range[10])}
    taken = set(found.values())
    following = 100
    for service in plan.services:
        spec = mapping(service.get("spec"))
        wanted = text(spec.get("clusterIP"))
        if wanted == "None" or spec.get("type") == "ExternalName":
            continue
        address = str(service_range[following])
        following += 1
        if wanted and _is_address(wanted) and wanted not in taken:
            address = wanted
        taken.add(address)
        found[namespace_of(service), name_of(service)] = address
    return found


def _is_address(value: str) -> bool:
    try:
        IPv4Address(value)
    except ValueError:
        return False
    return True


def _extra(plan: NetworkPlan) -> dict[Key, tuple[tuple[str, str, str], ...]]:
    names = sorted({each.partition("@")[0] for pod in plan.pods for each in pod.extra_networks})
    ranges = dict(zip(names, IPv4Network(EXTRA_RANGE).subnets(new_prefix=20), strict=False))
    found = {}
    for index, pod in enumerate(plan.pods):
        links = []
        for number, each in enumerate(pod.extra_networks, start=1):
            name, _, interface = each.partition("@")
            links.append((name, interface or f"net{number}", f"{ranges[name][8 * (index + 1) + number]}/20"))
        if links:
            found[pod.key] = tuple(links)
    return found
