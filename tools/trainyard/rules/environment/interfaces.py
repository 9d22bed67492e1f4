"""Which network interface each library takes, and whether the others can reach it there."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import has_more_networks, single_pod
from trainyard.rules.common.settings import Assignment, assignments, environments, runs_torch
from trainyard.rules.common.variable_remedies import assigned, beside, unsafely
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload

_UNREACHABLE = re.compile(
    r"(lo\d*|docker\d*|podman\d*|virbr.*|cni\d*|flannel.*|kube-ipvs\d*|nodelocaldns|dummy\d*|tunl\d*|br-.*|veth.*|cali.*)\Z"
)
_ADDRESS = re.compile(r"\d+(\.\d+){3}(/\d+)?\Z")
_POD_INTERFACE = "eth0"
_OF_THE_NODE = re.compile(
    r"(en[opsx]\w*|eth[1-9]\d*|em\d+|bond\d*|team\d+|ib|ibs?\d\w*|ibp\w+|hsn\d*|mlx\w+|roce\w*|rdma\w*|net\d+)\Z"
)
_OF_MULTUS = re.compile(r"net\d+\Z")


@rule("ENV005", "interface-unreachable", Severity.ERROR, needs=Workload)
@once
def interface_unreachable(workload: Workload) -> Iterator[Problem]:
    """An interface setting leaves no interface that reaches the other pods.

    Addresses of loopback and of bridges inside a node cannot be reached from another node. NCCL reads `^` (exclude) and
    `=` (exact) at the start of the value only; elsewhere they become part of a name that does not exist. A pod has only
    eth0, unless an annotation or the node's network gives it more: an exclusion that matches eth0, or the name of a
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


@rule("ENV009", "gloo-interface-syntax", Severity.ERROR, needs=Workload, fix="safe")
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
            reason = "is a prefix, but the library looks for an interface of exactly that name"
        if reason:
            yield Problem(
                f'{found.name} is "{found.value}", which {reason}',
                found.spot,
                help="name the interface",
                fix=_bare(found),
            )


@rule("ENV013", "gloo-interface-unset", Severity.WARNING, needs=Workload, fix="unsafe")
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


@rule("ENV014", "interfaces-disagree", Severity.WARNING, needs=Workload)
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


def _same_for_gloo(found: Assignment) -> Remedy | None:
    name = (found.value or "").removeprefix("=")
    return unsafely(beside(found, "GLOO_SOCKET_IFNAME", name)) if re.fullmatch(r"[a-z]\w*\d", name) else None


def _bare(found: Assignment) -> Remedy | None:
    """The interface without the sign by which NCCL takes a name for a whole one."""
    facts, name = found.facts, (found.value or "").removeprefix("=")
    return assigned(found, name) if name != found.value and facts is not None and not facts.refuses(name) else None


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
