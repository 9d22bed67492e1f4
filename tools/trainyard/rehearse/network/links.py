"""Commands of ip and tc that make the links of a rehearsal: between router and pods, and of further networks."""

from collections.abc import Iterator, Mapping

from trainyard.rehearse.network.addresses import DNS_POD, GATEWAY, Addresses
from trainyard.rehearse.network.plan import Key, NetworkPlan

FASTEST = 40_000_000_000
"""Bit/s from which on a link is left as fast as it is: this much no machine moves between a job's processes."""
_SMALLEST_BURST = 1 << 17
"""Bytes: two of the largest segments that the kernel hands on in one piece."""


def router_links(plan: NetworkPlan, addresses: Addresses, ends: Mapping[int, tuple[Key, str]]) -> Iterator[str]:
    """What `ip` does in the router. `ends` has by namespace number a pod in it and the file that stands for it."""
    yield "link set lo up"
    bridges = {name: f"x{index}" for index, name in enumerate(_further(addresses))}
    for bridge in bridges.values():
        yield f"link add {bridge} type bridge"
        yield f"link set {bridge} addrgenmode none up"
    for number, (key, end) in ends.items():
        yield f"link add v{number} type veth peer name {plan.interface} netns {end}"
        yield f"link set v{number} addrgenmode none up"
        yield f"address add {GATEWAY}/32 dev v{number}"
        yield f"route add {addresses.pods[key]}/32 dev v{number}"
        if key == DNS_POD.key:
            yield f"route add {addresses.node_resolver}/32 dev v{number}"
        for index, (name, interface, _) in enumerate(addresses.extra.get(key, ())):
            yield f"link add v{number}x{index} type veth peer name {interface} netns {end}"
            yield f"link set v{number}x{index} addrgenmode none master {bridges[name]} up"


def pod_links(plan: NetworkPlan, addresses: Addresses, key: Key) -> Iterator[str]:
    """What `ip` does in a pod."""
    link = plan.interface
    own = [addresses.pods[key], *([addresses.node_resolver] if key == DNS_POD.key else [])]
    yield "link set lo up"
    yield f"link set {link} addrgenmode none up"
    yield from (f"address add {each}/32 dev {link}" for each in own)
    yield f"route add {GATEWAY}/32 dev {link}"
    yield f"route add default via {GATEWAY} dev {link} src {own[0]}"
    for _, interface, address in addresses.extra.get(key, ()):
        yield f"link set {interface} addrgenmode none up"
        yield f"address add {address} dev {interface}"


def router_speed(plan: NetworkPlan, addresses: Addresses, ends: Mapping[int, tuple[Key, str]]) -> Iterator[str]:
    """What `tc` does in the router so that no pod receives faster than its link."""
    for number, (key, _) in ends.items():
        further = range(len(addresses.extra.get(key, ())))
        for link in (f"v{number}", *(f"v{number}x{index}" for index in further)):
            yield from _slowed(link, plan.bits_per_second)


def pod_speed(plan: NetworkPlan, addresses: Addresses, key: Key) -> Iterator[str]:
    """What `tc` does in a pod so that it does not send faster than its link."""
    for link in (plan.interface, *(interface for _, interface, _ in addresses.extra.get(key, ()))):
        yield from _slowed(link, plan.bits_per_second)


def pod_latency(plan: NetworkPlan, addresses: Addresses, key: Key) -> Iterator[str]:
    """What `tc` does in a pod so that what it sends is late; below the speed, if that is limited."""
    place = "parent 1:1" if plan.bits_per_second and plan.bits_per_second < FASTEST else "root"
    for link in (plan.interface, *(interface for _, interface, _ in addresses.extra.get(key, ()))):
        yield f"qdisc add dev {link} {place} netem delay {plan.latency * 1e6:.0f}us limit 100000"


def _slowed(link: str, bits_per_second: int | None) -> Iterator[str]:
    if bits_per_second and bits_per_second < FASTEST:
        burst = max(_SMALLEST_BURST, bits_per_second // 800)
        yield f"qdisc add dev {link} root handle 1: tbf rate {bits_per_second}bit burst {burst} latency 50ms"


def _further(addresses: Addresses) -> list[str]:
    return sorted({name for links in addresses.extra.values() for name, _, _ in links})
