"""nftables rules of the router, through which every packet between pods goes.

Two tables. `policies` drops what NetworkPolicies do not let through, and keeps in sets what it dropped and what nobody
answered, so that one can ask who waits for whom. `services` leads Services' virtual addresses to pods.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from trainyard.rehearse.network.addresses import DNS_POD, EXTRA_RANGE, GATEWAY, Addresses, holds
from trainyard.rehearse.network.endpoints import PROTOCOLS, Service, is_port
from trainyard.rehearse.network.plan import Key, NetworkPlan
from trainyard.rehearse.network.policies import DIRECTIONS, Direction, Isolation, Opening

_OWN = {"ingress": "ip daddr", "egress": "ip saddr"}
_PEER = {"ingress": "ip saddr", "egress": "ip daddr"}

_MULTICAST = "224.0.0.0/3"
_DYNAMIC = "size 65535; flags dynamic,timeout; timeout 2m;"
_SETS = f"""\
  set cut {{ type ipv4_addr . ipv4_addr; }}
  set cut_dropped {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service; {_DYNAMIC} }}
  set ingress_dropped {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service; {_DYNAMIC} }}
  set egress_dropped {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service; {_DYNAMIC} }}
  set refused {{ type ipv4_addr . ipv4_addr . inet_service; {_DYNAMIC} }}
  set unserved {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service; {_DYNAMIC} }}
  set outside {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service; {_DYNAMIC} }}
"""
"""Who dialled, whom, protocol and port."""


def policy_table(plan: NetworkPlan, addresses: Addresses, isolated: Iterable[Isolation]) -> str:
    """Rules that enforce NetworkPolicies; replaces those that were there."""
    found = tuple(isolated)
    order = {pod.key: index for index, pod in enumerate((*plan.pods, DNS_POD))}
    chains = "".join(_chain(each, order[each.pod]) for each in found)
    jumps = "".join(_jumps(found, addresses, order, direction) for direction in reversed(DIRECTIONS))
    own_node = sorted(
        pair
        for pod in plan.pods
        if not pod.host_network
        for pair in (
            (addresses.pods[pod.key], addresses.nodes[pod.node]),
            (addresses.nodes[pod.node], addresses.pods[pod.key]),
        )
    )
    near = f"    ip saddr . ip daddr {_pairs(own_node)} accept\n" if own_node else ""
    return (
        "table ip policies\ndelete table ip policies\ntable ip policies {\n"
        + _SETS
        + _prerouting(addresses)
        + chains
        + "  chain forward {\n    type filter hook forward priority filter; policy accept;\n"
        f"    ip saddr . ip daddr @cut {_note('cut_dropped')} drop\n"
        "    ip saddr . ip daddr @cut drop\n"
        "    tcp flags & (syn | rst | ack) == (rst | ack) ct status & assured == 0"
        " update @refused { ip daddr . ip saddr . tcp sport }\n"
        "    tcp flags & (syn | rst | ack) == (syn | ack) delete @refused { ip daddr . ip saddr . tcp sport }\n"
        "    ct state established,related accept\n"
        "    ct state invalid drop\n" + near + jumps + "  }\n}\n"
    )


def _prerouting(addresses: Addresses) -> str:
    """What nobody answers: virtual addresses without pods, refused as kube-proxy does, and addresses outside."""
    elsewhere = [each for each in addresses.services.values() if not holds(addresses.service_range, each)]
    virtual = _ranges((addresses.service_range, *elsewhere))
    own = {*addresses.pods.values(), *addresses.nodes.values(), addresses.node_resolver, GATEWAY}
    known = _ranges((*sorted(own), EXTRA_RANGE, _MULTICAST))
    return (
        "  chain prerouting {\n    type filter hook prerouting priority dstnat + 10; policy accept;\n"
        f"    ip daddr {virtual} {_note('unserved')}\n"
        f"    ip daddr {virtual} meta l4proto tcp reject with tcp reset\n"
        f"    ip daddr {virtual} reject\n"
        f"    ip daddr != {known} {_note('outside')}\n  }}\n"
    )


def _note(name: str) -> str:
    """Remembers a packet in a set, if it is of a protocol with ports."""
    return f"meta l4proto {{ tcp, udp, sctp }} update @{name} {{ ip saddr . ip daddr . meta l4proto . th dport }}"


def _jumps(found: tuple[Isolation, ...], addresses: Addresses, order: Mapping[Key, int], direction: Direction) -> str:
    verdicts = [
        f"{addresses.pods[each.pod]} : jump {direction}_{order[each.pod]}"
        for each in found
        if each.direction == direction
    ]
    return f"    {_OWN[direction]} vmap {{ {', '.join(verdicts)} }}\n" if verdicts else ""


def _chain(isolation: Isolation, number: int) -> str:
    direction = isolation.direction
    rules = "".join(f"    {_match(opening, direction)}return\n" for opening in isolation.openings)
    return f"  chain {direction}_{number} {{\n{rules}    {_note(f'{direction}_dropped')} drop\n    drop\n  }}\n"


def _match(opening: Opening, direction: Direction) -> str:
    parts = []
    if opening.peers is not None:
        parts.append(f"{_PEER[direction]} {_ranges(opening.peers)}")
    if opening.without:
        parts.append(f"{_PEER[direction]} != {_ranges(opening.without)}")
    if opening.protocol is not None:
        protocol = opening.protocol.lower()
        first, last = opening.ports or (0, 65535)
        parts.append(f"meta l4proto {protocol}" if opening.ports is None else f"{protocol} dport {first}-{last}")
    return "".join(f"{part} " for part in parts)


def _ranges(values: Iterable[str]) -> str:
    return "{ " + ", ".join(values) + " }"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "{ " + ", ".join(f"{a} . {b}" for a, b in dict.fromkeys(pairs)) + " }"


def service_table(
    services: Iterable[Service], addresses: Addresses, ready: Collection[Key], gone: Collection[Key]
) -> str:
    """Rules that lead a Service's virtual address to one of its pods; replaces those that were there."""
    rules = "".join(
        line
        for service in services
        if service.key in addresses.services
        for line in _leads(service, addresses, ready, gone)
    )
    dns = addresses.pods[DNS_POD.key]
    own = _pairs((address, address) for address in addresses.pods.values())
    return (
        "table ip services\ndelete table ip services\ntable ip services {\n"
        "  chain prerouting {\n    type nat hook prerouting priority dstnat; policy accept;\n"
        f"    ip daddr {addresses.dns} meta l4proto {{ tcp, udp }} th dport 53 dnat to {dns}\n{rules}  }}\n"
        "  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n"
        f"    ip saddr . ip daddr {own} masquerade\n  }}\n}}\n"
    )


def _leads(service: Service, addresses: Addresses, ready: Collection[Key], gone: Collection[Key]) -> Iterator[str]:
    behind = service.endpoints(ready, gone)
    for port in service.ports:
        targets = [(addresses.pods[pod.key], number) for pod in behind if (number := port.on(pod)) is not None]
        if (
            not targets
            or port.protocol not in PROTOCOLS
            or not all(map(is_port, (port.number, *(n for _, n in targets))))
        ):
            continue
        chosen = "jhash ip saddr" if service.sticky else "numgen random"
        table = ", ".join(f"{index} : {address} . {number}" for index, (address, number) in enumerate(targets))
        yield (
            f"    ip daddr {addresses.services[service.key]} {port.protocol.lower()} dport {port.number}"
            f" dnat ip to {chosen} mod {len(targets)} map {{ {table} }}\n"
        )
