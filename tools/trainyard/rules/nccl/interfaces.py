"""Interfaces and address families that NCCL alone is told of."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import single_pod
from trainyard.rules.common.settings import Environment, assignments, environments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, sequence

_ADDRESS = re.compile(r"\d+(\.\d+){3}(/\d+)?\Z")
_LINKS_TO_PODS = ("veth0", "eni0", "cali0", "lxc0", "cilium_host", "cni0", "flannel.1")
_POD_IDENTITY = "pod-id-link0"


@rule("NCL022", "node-links-not-excluded", Severity.WARNING, needs=Workload)
@once
def node_links_not_excluded(workload: Workload) -> Iterator[Problem]:
    """On the node's network, an exclusion leaves links that lead from the node to its pods.

    A node has an interface for each of its pods (veth, eni, cali, lxc), and on EKS a link-local one for Pod Identity.
    They exist on every node and reach none of the others, and NCCL takes what the list does not name. The job hangs
    in its first connection, or dies of it.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "^lo,docker", GLOO_SOCKET_IFNAME: ens5}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: ens5, GLOO_SOCKET_IFNAME: ens5}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "^lo,docker,veth,eni,pod-id-link0"}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}

    Source: https://github.com/aws-samples/aws-do-eks/pull/54
    """
    for found in assignments(workload, "NCCL_SOCKET_IFNAME"):
        if not found.pod_set.host_network or single_pod(workload) or not (found.value or "").startswith("^"):
            continue
        excluded = tuple(name for name in (found.value or "").lstrip("^=").split(",") if name)
        if not any(link.startswith(excluded) for link in _LINKS_TO_PODS):
            left = "the node's links to its pods, such as veth and cali"
        elif "eni" in excluded and not _POD_IDENTITY.startswith(excluded):
            left = f"{_POD_IDENTITY}, a link-local interface of EKS nodes"
        else:
            continue
        yield Problem(
            f'NCCL_SOCKET_IFNAME is "{found.value}" on the node\'s network, which leaves {left}',
            found.spot,
            help="name the interface that the nodes reach each other by, or exclude these too",
        )


@rule("NCL025", "address-family-differs", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def address_family_differs(workload: Workload) -> Iterator[Problem]:
    """NCCL is held to an address family that the job's Service or address does not have.

    NCCL_SOCKET_FAMILY decides by which of an interface's addresses ranks call each other. Where the pods have none of
    that family there is no interface left; on dual-stack pods the store and NCCL then meet by different families.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_FAMILY: AF_INET6}
        ---
        kind: Service
        spec: {ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_FAMILY: AF_INET}
        ---
        kind: Service
        spec: {ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_FAMILY: AF_INET6}
        ---
        kind: Service
        spec: {ipFamilies: [IPv6, IPv4], ipFamilyPolicy: PreferDualStack}

    Source: https://github.com/pytorch/pytorch/issues/135355
    """
    for each in environments(workload):
        found = each.get("NCCL_SOCKET_FAMILY")
        family = {"AF_INET": "IPv4", "AF_INET6": "IPv6"}.get((found.value or "") if found else "")
        if found is None or family is None:
            continue
        for spot, have in _families(workload, each):
            if family not in have:
                yield Problem(
                    f"NCCL_SOCKET_FAMILY is {found.value}, but the pods meet by {' and '.join(have)}",
                    found.spot,
                    related=(spot,),
                    help="remove NCCL_SOCKET_FAMILY, or use one family throughout",
                    fix=unsafely(unset(found)),
                )


def _families(workload: Workload, each: Environment) -> Iterator[tuple[Spot, list[str]]]:
    """What the pods are told of the family that they meet by: the Service of their names, or an address."""
    subdomain = each.pod_set.subdomain
    for service in workload.of_kind("Service"):
        listed = [
            text for text in sequence(mapping(service.data.get("spec")).get("ipFamilies")) if isinstance(text, str)
        ]
        if listed and subdomain is not None and service.name == subdomain.value:
            yield service.at("spec", "ipFamilies"), listed
    address = each.get("MASTER_ADDR", "PET_MASTER_ADDR")
    if address is not None and address.value and _ADDRESS.match(address.value):
        yield address.spot, ["IPv4"]
