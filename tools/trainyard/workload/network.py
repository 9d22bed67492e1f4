"""What NetworkPolicies let through, read from the rendered ones as a network plugin enforces them.

Every answer has three values: a rule that names addresses, or labels that no manifest shows, makes it None, and rules
stay silent. Kubernetes leaves open what policies mean for pods on the host's network, and says what most plugins do,
which holds here: no policy selects them, and no podSelector finds them, since what they send comes from their node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Literal

from trainyard.objects.objects import Object, Spot
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries, mapping, sequence, strings, text
from trainyard.workload.selectors import Labels, all_of, pod_labels, selects

Direction = Literal["ingress", "egress"]

ALL_PORTS = range(1, 65536)
EPHEMERAL_PORTS = range(32768, 61000)
"""What Linux gives to sockets that ask for any port, as those of NCCL and Gloo do."""
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Policy:
    """A NetworkPolicy that selects pods of a set."""

    object: Object
    certain: bool
    """False where it may select them or not."""
    isolates: frozenset[Direction]
    """The directions in which it denies what no rule allows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether traffic passes, and what decides it."""

    allowed: bool | None
    """None where it cannot be known."""
    spots: tuple[Spot, ...] = ()
    """Where it is closed: the `ports` of rules that allow the peer but not the port, else the policies that isolate."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection, as policies see it."""

    namespace: str
    """Empty where manifests do not say it."""
    labels: Labels
    namespace_labels: Labels
    ports: Mapping[tuple[str, str], frozenset[int]]
    """Protocol and name of a container port to its numbers."""
    on_node: bool = False
    """Whether it has its node's address, as pods on the host's network do."""
    public: bool = False
    """Whether it is a host of the internet."""


def policies_for(workload: Workload, pod_set: PodSet) -> tuple[Policy, ...]:
    """The NetworkPolicies that select, or may select, the pods of a set; none for pods on the host's network."""
    if pod_set.host_network:
        return ()
    found = []
    labels = pod_labels(pod_set)
    for item in workload.of_kind("NetworkPolicy"):
        if item.group != "networking.k8s.io":
            continue
        spec = mapping(item.data.get("spec"))
        chosen = True if spec.get("podSelector") is None else selects(spec["podSelector"], labels)
        if chosen is not False:
            found.append(Policy(item, chosen is True, _isolates(spec)))
    return tuple(found)


def peers_reach(workload: Workload, ports: range = ALL_PORTS, protocol: str = "TCP") -> Answer:
    """Whether every pod of the job reaches every other on all of these ports, through egress and ingress.

    A job of one pod has no peers: allowed.
    """
    if workload.pods == 1:
        return Answer(True)
    answers = []
    peers = _peers(workload)
    for source in peers:
        for target in peers:
            alone = source is target and source.count.value == 1
            if not alone and source.count.value != 0 and target.count.value != 0:
                answers.append(reaches(workload, source, target, ports, protocol))
    return _both(answers)


def _peers(workload: Workload) -> tuple[PodSet, ...]:
    """The pods that form one world: without those of a JobSet that only prepare or report, and Ray's submitter."""
    if workload.object.kind in _MIXED:
        ranks = tuple(each for each in workload.pod_sets if any(c.gpus or c.launch for c in each.containers))
        return ranks or workload.pod_sets
    return tuple(each for each in workload.pod_sets if each.role != "submitter" or workload.object.kind != "RayJob")


_MIXED = ("JobSet", "TrainJob")


def reaches(workload: Workload, source: PodSet, target: PodSet, ports: range, protocol: str = "TCP") -> Answer:
    """Whether pods of one set reach those of another on all of these ports, through egress and ingress."""
    out = _passes(workload, source, _end(workload, target), ports, protocol, "egress", _end(workload, target))
    into = _passes(workload, target, _end(workload, source), ports, protocol, "ingress", _end(workload, target))
    return _both((out, into))


def reaches_dns(workload: Workload, pod_set: PodSet, protocol: str = "UDP") -> Answer:
    """Whether pods reach the cluster's DNS on port 53. Resolvers ask over UDP, and over TCP for long answers."""
    namespace = "kube-system"
    dns = End(
        namespace=namespace,
        labels=Labels({"k8s-app": "kube-dns"}, complete=False),
        namespace_labels=Labels({NAMESPACE_LABEL: namespace}, complete=False),
        ports={("UDP", "dns"): frozenset({53}), ("TCP", "dns-tcp"): frozenset({53})},
    )
    return _passes(workload, pod_set, dns, range(53, 54), protocol, "egress", dns)


def reaches_internet(workload: Workload, pod_set: PodSet, port: int) -> Answer:
    """Whether pods reach a host of the internet on a TCP port."""
    nothing = Labels({}, complete=True)
    host = End(namespace="", labels=nothing, namespace_labels=nothing, ports={}, public=True)
    return _passes(workload, pod_set, host, range(port, port + 1), "TCP", "egress", host)


def _isolates(spec: Mapping[Any, Any]) -> frozenset[Direction]:
    types = sequence(spec.get("policyTypes"))
    if not types:
        return frozenset({"ingress", "egress"}) if sequence(spec.get("egress")) else frozenset({"ingress"})
    directions: tuple[tuple[str, Direction], ...] = (("Ingress", "ingress"), ("Egress", "egress"))
    return frozenset(direction for name, direction in directions if name in types)


def _end(workload: Workload, pod_set: PodSet) -> End:
    name = workload.object.namespace
    rendered = next(
        (item for item in workload.objects if item.kind == "Namespace" and name and item.name == name), None
    )
    known = {} if rendered is None else strings(mapping(rendered.data.get("metadata")).get("labels"))
    if name:
        known[NAMESPACE_LABEL] = name
    ports: dict[tuple[str, str], set[int]] = {}
    for container in pod_set.containers:
        for _, port in entries(container.data.get("ports")):
            number = port.get("containerPort")
            if isinstance(number, int) and isinstance(port.get("name"), str):
                ports.setdefault((text(port.get("protocol")) or "TCP", port["name"]), set()).add(number)
    return End(
        namespace=name,
        labels=pod_labels(pod_set),
        namespace_labels=Labels(known, complete=rendered is not None and bool(name)),
        ports={key: frozenset(numbers) for key, numbers in ports.items()},
        on_node=pod_set.host_network,
    )


def _passes(
    workload: Workload, pod_set: PodSet, peer: End, ports: range, protocol: str, direction: Direction, target: End
) -> Answer:
    """Whether the policies of one end let the traffic pass; `target` is the end that is dialled."""
    policies = [policy for policy in policies_for(workload, pod_set) if direction in policy.isolates]
    if not policies:
        return Answer(True)
    certain: list[range] = []
    possible: list[range] = []
    narrow: list[Spot] = []
    for policy in policies:
        for rule, spot in _rules(policy.object, direction):
            met = _peer_matches(rule, direction, peer, workload.object.namespace)
            if met is False:
                continue
            opened, unknown = _opened(rule, protocol, target)
            possible += opened + unknown
            if met and policy.certain:
                certain += opened
            if met:
                narrow.append(spot.below("ports"))
    if _covers(certain, ports):
        return Answer(True)
    if _covers(possible, ports) or not any(policy.certain for policy in policies):
        return Answer(None)
    isolating = [policy.object.at("spec", "podSelector") for policy in policies if policy.certain]
    return Answer(False, tuple(narrow or isolating))


def _rules(policy: Object, direction: Direction) -> Iterator[tuple[Mapping[Any, Any], Spot]]:
    for index, rule in entries(mapping(policy.data.get("spec")).get(direction)):
        yield rule, policy.at("spec", direction, index)


def _peer_matches(rule: Mapping[Any, Any], direction: Direction, peer: End, namespace: str) -> bool | None:
    """Whether a rule of a policy in `namespace` speaks of the peer. A rule that lists none speaks of all."""
    listed = rule.get("from" if direction == "ingress" else "to")
    if listed is None or listed == []:
        return True
    answers = [_one_peer(mapping(item), peer, namespace) for item in sequence(listed)]
    return True if True in answers else None if None in answers or not answers else False


def _one_peer(item: Mapping[Any, Any], peer: End, namespace: str) -> bool | None:
    if peer.public and item:
        return _holds_public(text(mapping(item["ipBlock"]).get("cidr"))) if "ipBlock" in item else False
    if "ipBlock" in item or not item:
        return None
    if peer.on_node:  # OVN-Kubernetes counts nodes as a namespace of their own
        return False if item.get("namespaceSelector") is None else None
    pods = True if item.get("podSelector") is None else selects(item["podSelector"], peer.labels)
    if item.get("namespaceSelector") is None:
        return all_of((pods, peer.namespace == namespace))
    return all_of((pods, selects(item["namespaceSelector"], peer.namespace_labels)))


def _holds_public(block: str) -> bool | None:
    """Whether a host of the internet is among the addresses of a block."""
    try:
        network = ip_network(block, strict=False)
    except ValueError:
        return None
    return True if network.prefixlen == 0 else False if network.is_private else None


def _opened(rule: Mapping[Any, Any], protocol: str, target: End) -> tuple[list[range], list[range]]:
    """The ports that a rule opens for a protocol on the end that is dialled, and those that it may open."""
    listed = rule.get("ports")
    if listed is None or listed == []:
        return [ALL_PORTS], []
    opened: list[range] = []
    unknown: list[range] = []
    for item in sequence(listed):
        entry = mapping(item)
        if (text(entry.get("protocol")) or "TCP") != protocol:
            continue
        port, end = entry.get("port"), entry.get("endPort")
        if port is None:
            opened.append(ALL_PORTS)
        elif isinstance(port, int):
            opened.append(range(port, (end if isinstance(end, int) else port) + 1))
        elif isinstance(port, str) and (protocol, port) in target.ports:
            opened += [range(number, number + 1) for number in target.ports[protocol, port]]
        else:
            unknown.append(ALL_PORTS)
    return opened, unknown


def _covers(opened: Iterable[range], wanted: range) -> bool:
    """Whether the open ranges together hold every wanted port."""
    following = wanted.start
    for part in sorted(opened, key=lambda each: each.start):
        if part.start > following:
            break
        following = max(following, part.stop)
    return following >= wanted.stop


def _both(answers: Sequence[Answer]) -> Answer:
    closed = [answer for answer in answers if answer.allowed is False]
    if closed:
        return Answer(False, tuple(dict.fromkeys(spot for answer in closed for spot in answer.spots)))
    return Answer(None) if any(answer.allowed is None for answer in answers) else Answer(True)
