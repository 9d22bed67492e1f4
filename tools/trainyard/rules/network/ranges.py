"""Ranges of addresses in NetworkPolicies: NET007."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import items, part, word, words
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule

_MAPPED = 96
"""Bits before an address of IPv4 in one of IPv6."""
_DIRECTIONS = {"ingress": "from", "egress": "to"}


@rule("NET007", "address-range-refused", Severity.ERROR, needs=Object)
def address_range_refused(item: Object) -> Iterator[Problem]:
    """A NetworkPolicy has a malformed range of addresses, or excepts addresses that are not in the range.

    A range is an address, a slash and the number of its fixed bits. The API server refuses others, and with them the
    job or the platform that the policy belongs to. Since Kubernetes 1.36 it also refuses a range whose other bits are
    not 0, and numbers with a zero before them; older ones warn. That is a warning here.

    Bad:
        # whole
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: storage}
        spec: {egress: [{to: [{ipBlock: {cidr: 10.60.0.0/99}}]}]}
    Bad:
        # whole
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: storage}
        spec: {egress: [{to: [{ipBlock: {cidr: 10.60.0.0/16, except: [10.61.0.0/24]}}]}]}
    Good:
        # whole
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: storage}
        spec: {egress: [{to: [{ipBlock: {cidr: 10.60.0.0/16, except: [10.60.1.0/24]}}]}]}
    Near miss:
        # whole
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: storage}
        spec: {egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]}]}

    Source: https://kubernetes.io/docs/reference/using-api/cidr-ip-validation/
    """
    if item.group != "networking.k8s.io" or item.kind != "NetworkPolicy":
        return
    for block in _blocks(item):
        whole = None
        for spot, text in (*_text(block.below("cidr")), *words(block.below("except"))):
            found = _range(text)
            if found is None:
                message = f"{text or 'an empty text'} is not a range of addresses"
                yield Problem(message, spot, help="write one such as 10.60.0.0/16")
            elif spot.path[-1] == "cidr":
                whole = found
            elif found == whole:
                yield Problem(f"{text} is left out of itself", spot, (), "leave out a smaller range in it")
            elif whole is not None and not _is_inside(found, whole):
                message = f"{text} is left out of {whole}, but is not a part of it"
                yield Problem(message, spot, (), "leave out a smaller range in it")
            if found is not None and str(found) != text and not _is_another_spelling(text):
                message = f"{text} is refused since Kubernetes 1.36, which wants {found}"
                yield Problem(message, spot, help=f"write {found}", severity=Severity.WARNING)


def _text(spot: Spot) -> Iterator[tuple[Spot, str]]:
    if isinstance(value_at(spot), str):
        yield spot, word(spot)


def _blocks(item: Object) -> Iterator[Spot]:
    for direction, peers in _DIRECTIONS.items():
        for rule_, _ in items(item.at("spec", direction)):
            for peer, _ in items(rule_.below(peers)):
                if part(peer.below("ipBlock")):
                    yield peer.below("ipBlock")


def _range(text: str) -> IPv4Network | IPv6Network | None:
    """A range as the API server reads it: it takes zeros before an octet's number, and addresses within the range.

    One of IPv4 in the form of IPv6 is one of IPv4.
    """
    if not re.fullmatch(r"[0-9a-fA-F:.]+/\d{1,3}", text):
        return None
    text = re.sub(r"(?<=/)0+(?=\d)" if ":" in text else r"(?<!\d)0+(?=\d)", "", text)
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    mapped = found.network_address.ipv4_mapped if isinstance(found, IPv6Network) else None
    return found if mapped is None or found.prefixlen < _MAPPED else IPv4Network((mapped, found.prefixlen - _MAPPED))


def _is_inside(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    """Whether a range is a part of another, and not all of it."""
    return one.version == other.version and one != other and other.supernet_of(one)  # type: ignore[arg-type]


def _is_another_spelling(text: str) -> bool:
    """Whether all bits are as they must be, in another spelling of IPv6: the API server takes FD00::/8."""
    if ":" not in text or re.search(r"/0\d", text):
        return False
    try:
        return IPv6Network(text).network_address.ipv4_mapped is None
    except ValueError:
        return False
