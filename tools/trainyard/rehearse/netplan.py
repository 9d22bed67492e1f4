"""The network that a job's pods find in its cluster, read from the job's objects and the cluster's facts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.rehearse.members import Member, Members
from trainyard.rehearse.network import NetworkPlan, PodSpot
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, sequence, strings, text

NETWORKS = "k8s.v1.cni.cncf.io/networks"
_USUAL_INTERFACE = "eth0"


def network_plan(workload: Workload, everyone: Members) -> NetworkPlan:
    """The plan of a job's network. Its pods stand in the order of its members."""
    facts = {} if workload.cluster is None else mapping(workload.cluster.data.get("spec"))
    spots = tuple(_spot(workload, each) for each in everyone.pods)
    labels = {
        each.name: strings(mapping(each.data.get("metadata")).get("labels"))
        for each in workload.of_cluster("Namespace")
    }
    return NetworkPlan(
        pods=spots,
        services=(*(each.data for each in workload.of_kind("Service")), *everyone.services),
        policies=tuple(each.data for each in workload.of_kind("NetworkPolicy")),
        namespaces=labels,
        bits_per_second=_speed(facts, max((len(each.extra_networks) for each in spots), default=0)),
        interface=text(mapping(facts.get("network")).get("interface")) or _USUAL_INTERFACE,
    )


def _speed(facts: Mapping[Any, Any], further: int) -> int | None:
    """Bit/s of one link where the cluster says how fast a node's are together: `further` ones share it, if any."""
    stated = mapping(facts.get("forecast")).get("networkGbps")
    if isinstance(stated, bool) or not isinstance(stated, int | float) or stated <= 0:
        return None
    return int(stated * 1e9 / max(1, further))


def _spot(workload: Workload, member: Member) -> PodSpot:
    spec = member.pod_set.spec
    ports = {
        (text(port.get("protocol")) or "TCP", text(port.get("name"))): port["containerPort"]
        for container in (*member.pod_set.containers, *member.pod_set.init_containers)
        for _, port in entries(container.data.get("ports"))
        if port.get("name") and isinstance(port.get("containerPort"), int)
    }
    return PodSpot(
        namespace=workload.object.namespace,
        name=member.name,
        labels=member.labels,
        node=f"node-of-{member.name}",
        hostname=member.hostname if member.subdomain else "",
        subdomain=member.subdomain,
        host_network=member.pod_set.host_network,
        ports=ports,
        extra_networks=tuple(_further(member.annotations.get(NETWORKS, ""))),
        dns_policy=text(spec.get("dnsPolicy")) or "ClusterFirst",
        dns_config=mapping(spec.get("dnsConfig")),
        host_aliases=tuple(each for _, each in entries(spec.get("hostAliases"))),
        service_links=spec.get("enableServiceLinks") is not False,
    )


def _further(annotation: str) -> Iterator[str]:
    """Further networks as `name` or `name@interface`, of either form that Multus takes."""
    if not annotation.lstrip().startswith("["):
        yield from (each.strip() for each in annotation.split(",") if each.strip())
        return
    try:
        listed = sequence(json.loads(annotation))
    except ValueError:
        return
    for each in map(mapping, listed):
        name, interface = text(each.get("name")), text(each.get("interface"))
        if name:
            yield f"{name}@{interface}" if interface else name
