"""Which network interface each library takes, and whether the others can reach it there."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import has_more_networks, single_pod
from trainyard.rules.common.settings import Assignment, Environment, assignments, environments, runs_torch
from trainyard.rules.common.variable_remedies import assigned, beside, unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import mapping, sequence

_UNREACHABLE = re.compile(
    r"(lo\d*|docker\d*|podman\d*|virbr.*|cni\d*|flannel.*|kube-ipvs\d*|nodelocaldns|dummy\d*|tunl\d*|br-.*|veth.*|cali.*)\Z"
)
_ADDRESS = re.compile(r"\d+(\.\d+){3}(/\d+)?\Z")
_POD_INTERFACE = "eth0"
_OF_THE_NODE = re.compile(
    r"(en[opsx]\w*|eth[1-9]\d*|em\d+|bond\d*|team\d+|ib|ibs?\d\w*|ibp\w+|hsn\d*|mlx\w+|roce\w*|rdma\w*|net\d+)\Z"
)
_OF_MULTUS = re.compile(r"net\d+\Z")
_LINKS_TO_PODS = ("veth0", "eni0", "cali0", "lxc0", "cilium_host", "cni0", "flannel.1")
_POD_IDENTITY = "pod-id-link0"
_SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@rule("NCL009", "interface-unreachable", Severity.ERROR, needs=Workload)
@once
def interface_unreachable(workload: Workload) -> Iterator[Problem]:
    """An interface setting leaves no interface that reaches the other pods.

    Addresses of loopback and of bridges inside a node mean nothing on another node. NCCL reads `^` (exclude) and `=`
    (exact) at the start of the value only; elsewhere they become part of a name that does not exist. A pod has eth0
    alone, unless an annotation or the node's network gives it more: an exclusion that matches eth0, or the name of a
    node's interface, leaves none.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "eth0,^docker0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "=eth0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "^docker0,lo"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    for found in assignments(workload):
        facts = found.facts
        reason = _misses(workload, found)
        if reason and (facts is None or facts.parse != "exact-interfaces" or not facts.refuses(found.value or "")):
            yield Problem(
                f'{found.name} is "{found.value}", which {reason}',
                found.spot,
                help="name an interface that every pod has, such as eth0",
            )


@rule("NCL017", "gloo-interface-syntax", Severity.ERROR, needs=Workload, fix="safe")
@once
def gloo_interface_syntax(workload: Workload) -> Iterator[Problem]:
    """GLOO_SOCKET_IFNAME or TP_SOCKET_IFNAME is written in NCCL's syntax.

    Gloo and TensorPipe look for interfaces by their whole name. `^`, `=` and prefixes are NCCL's own; here they name
    an interface that does not exist, and the process group cannot be made.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: "^lo,docker0"}
    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: "=eth0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: eth0}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: "eth0,eth1"}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail}}}}

    Source: https://github.com/aws-samples/aws-do-eks/pull/69
    """
    for found in assignments(workload, "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        facts = found.facts
        if not found.value or facts is None:
            continue
        reason = facts.refuses(found.value)
        if not reason and found.value in ("eth", "en", "eno", "enp", "ens", "ib", "bond", "hsn"):
            reason = "is a prefix: the library looks for an interface of that very name"
        if reason:
            yield Problem(
                f'{found.name} is "{found.value}", which {reason}',
                found.spot,
                help="name the interface",
                fix=_bare(found),
            )


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


@rule("NCL023", "gloo-interface-unset", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def gloo_interface_unset(workload: Workload) -> Iterator[Problem]:
    """On the node's network, NCCL is told its interface, and Gloo is not.

    Gloo then takes the address that the node's own name resolves to, which is 127.0.0.1 on many nodes. Checkpoints,
    barriers on CPU tensors and debug wrappers make Gloo groups in jobs that "only use NCCL": their ranks cannot meet.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: ens5}
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
        data: {NCCL_SOCKET_IFNAME: eth0}

    Source: https://github.com/aws-samples/aws-do-eks/pull/50
    """
    for each in environments(workload):
        found = each.get("NCCL_SOCKET_IFNAME")
        if found is None or not each.pod_set.host_network or single_pod(workload):
            continue
        if each.lacks("GLOO_SOCKET_IFNAME") and runs_torch(workload, each.container):
            yield Problem(
                "NCCL_SOCKET_IFNAME is set on the node's network, but GLOO_SOCKET_IFNAME is not",
                found.spot.saying("NCCL alone reads this"),
                help="set GLOO_SOCKET_IFNAME to the same interface, by its whole name",
                fix=_same_for_gloo(found),
            )


@rule("NCL024", "interfaces-disagree", Severity.WARNING, needs=Workload)
@once
def interfaces_disagree(workload: Workload) -> Iterator[Problem]:
    """NCCL and Gloo are sent to different interfaces.

    One of them comes up and the other times out where the two networks do not both reach every pod. It looks like a
    hang at the first barrier or checkpoint.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: eth0, GLOO_SOCKET_IFNAME: net1}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: storage}}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: eth0, GLOO_SOCKET_IFNAME: eth0}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: "eth", GLOO_SOCKET_IFNAME: eth0}

    Source: https://github.com/gpustack/gpustack/issues/2125
    """
    if single_pod(workload):
        return
    for each in environments(workload):
        nccl, gloo = each.get("NCCL_SOCKET_IFNAME"), each.get("GLOO_SOCKET_IFNAME")
        if nccl is None or gloo is None or not nccl.value or not gloo.value or nccl.value.startswith("^"):
            continue
        if _misses(workload, nccl) or _misses(workload, gloo):
            continue
        chosen = nccl.value.removeprefix("=").split(",")
        names = gloo.value.split(",")
        exact = nccl.value.startswith("=")
        if not any(name == each or (not exact and name.startswith(each)) for name in names for each in chosen):
            yield Problem(
                f"NCCL_SOCKET_IFNAME is {nccl.value}, but GLOO_SOCKET_IFNAME is {gloo.value}",
                gloo.spot,
                related=(nccl.spot,),
                help="send both to one interface",
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


def _same_for_gloo(found: Assignment) -> Remedy | None:
    name = (found.value or "").removeprefix("=")
    return unsafely(beside(found, "GLOO_SOCKET_IFNAME", name)) if re.fullmatch(r"[a-z]\w*\d", name) else None


def _bare(found: Assignment) -> Remedy | None:
    """The interface without the sign by which NCCL takes a name for a whole one."""
    facts, name = found.facts, (found.value or "").removeprefix("=")
    return assigned(found, name) if name != found.value and facts is not None and not facts.refuses(name) else None


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


def _misses(workload: Workload, found: Assignment) -> str:
    """Why an interface setting leaves no way to the other pods, or is not read at all; empty where it may work."""
    facts = found.facts
    if facts is None or facts.type != "ifname" or not found.value or "exclude" in found.name.lower():
        return ""
    if reason := facts.refuses(found.value):
        return reason
    return "" if single_pod(workload) else _unreachable(found.value, found.pod_set)


def _unreachable(value: str, pod_set: PodSet) -> str:
    """Why no peer can be reached over what the value selects; empty where one may be."""
    alone = not pod_set.host_network and not has_more_networks(pod_set)
    if value.startswith("^"):
        exact = value.startswith("^=")
        names = value.lstrip("^=").split(",")
        hit = any(name == _POD_INTERFACE if exact else name and _POD_INTERFACE.startswith(name) for name in names)
        return f"excludes {_POD_INTERFACE}, the only interface of a pod" if alone and hit else ""
    names = [name.partition(":")[0] for name in value.removeprefix("=").split(",")]
    for name in names:
        if _ADDRESS.match(name) and "/" not in value:
            return "is an address: the name of an interface is expected"
        if _UNREACHABLE.match(name):
            return f"selects {name}, which no other node can reach"
    if alone and all(_OF_THE_NODE.match(name) for name in names):
        return f"no pod has: off the node's network, and without more networks, it has {_POD_INTERFACE} alone"
    if pod_set.host_network and all(_OF_MULTUS.match(name) for name in names):
        return "names an interface that Multus adds, and pods on the node's network get none"
    return ""
