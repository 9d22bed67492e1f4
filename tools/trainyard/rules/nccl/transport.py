"""Settings against the network that the pods get: RDMA devices, EFA, interfaces."""

import re
from collections.abc import Iterator

from trainyard.fieldpath import lookup
from trainyard.finding import Severity
from trainyard.objects import Spot
from trainyard.rules.nccl.settings import Assignment, assignments
from trainyard.rules.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.plain import entries, mapping, sequence

_EFA = "vpc.amazonaws.com/efa"
_RDMA = re.compile(r"rdma/|.*(rdma|roce|infiniband|[/_-]hca|ibdev)|nvidia\.com/hostdev\Z", re.IGNORECASE)
_ORDINARY = re.compile(r"(cpu|memory|pods|ephemeral-storage|hugepages-.*|.*/gpu|nvidia\.com/mig-.*|attachable-.*)\Z")
_ATTACHED = ("k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces")
_LOCK = frozenset({"IPC_LOCK", "CAP_IPC_LOCK", "SYS_RESOURCE", "CAP_SYS_RESOURCE", "ALL"})
_UNREACHABLE = re.compile(
    r"(lo\d*|docker\d*|podman\d*|virbr.*|cni\d*|flannel.*|kube-ipvs\d*|nodelocaldns|dummy\d*|tunl\d*|br-.*)\Z"
)
_ADDRESS = re.compile(r"\d+(\.\d+){3}(/\d+)?\Z")
_POD_INTERFACE = "eth0"


@rule("NCL003", "infiniband-off-with-rdma", Severity.ERROR, needs=Workload)
@once
def infiniband_off_with_rdma(workload: Workload) -> Iterator[Problem]:
    """RDMA devices are requested, but NCCL is told not to use them.

    NCCL_IB_DISABLE=1 and NCCL_NET=Socket send all traffic over the pod network. The scarce devices are reserved and
    idle, at a small part of the bandwidth, and nothing is logged. NCCL_IB_DISABLE does not reach EFA, which a plugin
    drives; NCCL_NET and FI_PROVIDER do.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "1"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
        ---
        kind: Fabric
        spec: {resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-disable
    """
    requested = _requested(workload)
    for found in assignments(workload, "NCCL_IB_DISABLE", "NCCL_NET", "FI_PROVIDER"):
        idle = [name for name in requested if _switches_off(found, name)]
        if idle:
            devices = requested[idle[0]]
            yield Problem(
                f"{found.name} is {found.value}, but the pods request {idle[0]}: {devices.value}",
                found.spot.saying("sends all traffic over the pod network"),
                related=(devices.spot.saying("reserved, and never used"),),
                help=f"remove {found.name}, or give the devices back",
            )


@rule("NCL004", "infiniband-without-rdma", Severity.WARNING, needs=Workload)
@once
def infiniband_without_rdma(workload: Workload) -> Iterator[Problem]:
    """NCCL is set up for InfiniBand, but no pod can reach an RDMA device.

    Without an RDMA resource, a network attachment, the node's network or a privileged container there is no
    /dev/infiniband in the pod. NCCL falls back to TCP and says so only at INFO level.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {rdma/hca: 1}}}]}}}
    Near miss:
        kind: Job
        spec:
          template:
            metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail-0,rail-1"}}
            spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}

    Source: https://github.com/NVIDIA/aicr/issues/2276
    """
    if _single_pod(workload) or _may_reach_rdma(workload):
        return
    names = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL", "NCCL_IB_DISABLE")
    asking = [found for found in assignments(workload, *names) if _asks_for_infiniband(found)]
    if asking:
        found = min(asking, key=lambda found: names.index(found.name))
        yield _no_device(
            workload,
            f"{found.name} is {found.value}, but no pod requests an RDMA device",
            found.spot.saying("needs /dev/infiniband"),
            "request the RDMA device in limits, or remove the setting",
        )


@rule("NCL009", "interface-unreachable", Severity.ERROR, needs=Workload)
@once
def interface_unreachable(workload: Workload) -> Iterator[Problem]:
    """An interface setting leaves no interface that reaches the other pods.

    Addresses of loopback and of bridges inside a node mean nothing on another node. NCCL reads `^` (exclude) and `=`
    (exact) at the start of the value only; elsewhere they become part of a name that does not exist. An exclusion
    that matches eth0 takes the only interface that a pod has.

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
        if facts is None or facts.type != "ifname" or not found.value or "exclude" in found.name.lower():
            continue
        reason = facts.refuses(found.value) if facts.parse == "nccl-interfaces" else ""
        if not reason and not _single_pod(workload):
            reason = _unreachable(found.value, found.pod_set)
        if reason:
            yield Problem(
                f'{found.name} is "{found.value}", which {reason}',
                found.spot,
                help="name an interface that every pod has, such as eth0",
            )


@rule("NCL016", "rdma-without-memlock", Severity.WARNING, needs=Workload)
@once
def rdma_without_memlock(workload: Workload) -> Iterator[Problem]:
    """A container asks for an RDMA device, but not for the right to lock memory.

    The device reads and writes pages that must stay where they are. Without the IPC_LOCK capability, and where the
    container runtime keeps its usual limit, registration fails, or NCCL falls back to TCP. EFA is left out: its nodes
    lift the limit.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {capabilities: {add: null}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {capabilities: {add: [IPC_LOCK]}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {$replace: {privileged: true}}}]}}}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            devices = [(name, limit) for name, limit in container.limits.items() if _RDMA.match(name)]
            if devices and not _may_lock(container):
                name, limit = devices[0]
                yield Problem(
                    f"container {container.name} requests {name}, but has neither IPC_LOCK nor privileged",
                    limit.spot,
                    related=(container.spot.below("securityContext", "capabilities", label="IPC_LOCK is not here"),),
                    help="add IPC_LOCK to securityContext.capabilities.add",
                )


@rule("NCL017", "gloo-interface-syntax", Severity.ERROR, needs=Workload)
@once
def gloo_interface_syntax(workload: Workload) -> Iterator[Problem]:
    """GLOO_SOCKET_IFNAME or TP_SOCKET_IFNAME is written in NCCL's syntax.

    Gloo and TensorPipe look for interfaces by their whole name. `^`, `=` and prefixes are NCCL's own; here they name
    an interface that does not exist, and the process group cannot be made.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: "^lo,docker0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: eth0}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {GLOO_SOCKET_IFNAME: "eth0,eth1"}

    Source: https://github.com/aws-samples/aws-do-eks/pull/69
    """
    for found in assignments(workload, "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        facts = found.facts
        if not found.value or facts is None:
            continue
        reason = facts.refuses(found.value)
        if not reason and found.value in ("eth", "en", "ens", "ib"):
            reason = "is a prefix: the library looks for an interface of that very name"
        if reason:
            yield Problem(f'{found.name} is "{found.value}", which {reason}', found.spot, help="name the interface")


@rule("NCL019", "net-ib-without-rdma", Severity.ERROR, needs=Workload)
@once
def net_ib_without_rdma(workload: Workload) -> Iterator[Problem]:
    """NCCL_NET=IB demands InfiniBand, but no pod can reach an RDMA device.

    A network that is named by NCCL_NET is the only one that NCCL tries. Without a device it stops at the start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: IB}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: IB}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: IB}
        ---
        kind: Job
        spec:
          template:
            spec:
              hostNetwork: true
              containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net
    """
    if _single_pod(workload) or _may_reach_rdma(workload):
        return
    for found in assignments(workload, "NCCL_NET"):
        if found.value is not None and found.value.upper() == "IB":
            yield _no_device(
                workload,
                "NCCL_NET is IB, but no pod requests an RDMA device",
                found.spot.saying("NCCL stops where it finds none"),
                "request the RDMA device in limits, or remove NCCL_NET",
            )


@rule("NCL020", "efa-without-device", Severity.ERROR, needs=Workload)
@once
def efa_without_device(workload: Workload) -> Iterator[Problem]:
    """FI_PROVIDER=efa is set, but no container requests an EFA device.

    Without `vpc.amazonaws.com/efa` in limits libfabric finds no such provider, and NCCL goes on over TCP.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: efa}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: efa}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4}}}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: tcp}

    Source: https://github.com/aws/sagemaker-hyperpod-cli/issues/306
    """
    if _EFA in _requested(workload) or any(_sees_the_node(pod_set) for pod_set in workload.pod_sets):
        return
    for found in assignments(workload, "FI_PROVIDER"):
        if found.value == "efa":
            yield _no_device(
                workload,
                f"FI_PROVIDER is efa, but no container requests {_EFA}",
                found.spot.saying("libfabric finds no such provider"),
                f"add {_EFA} to limits and requests",
            )


def _requested(workload: Workload) -> dict[str, Setting]:
    """RDMA devices that pods request, by resource name; EFA among them."""
    return {
        name: limit
        for pod_set in workload.pod_sets
        for container in pod_set.containers
        for name, limit in container.limits.items()
        if (name == _EFA or _RDMA.match(name)) and str(limit.value) != "0"
    }


def _asks_for_infiniband(found: Assignment) -> bool:
    return found.value == "0" if found.name == "NCCL_IB_DISABLE" else bool(found.value)


def _no_device(workload: Workload, message: str, asked: Spot, remedy: str) -> Problem:
    """A variable that needs a device, which is missing from every pod that trains."""
    mains = (pod_set.main() for pod_set in workload.pod_sets)
    missing = [main.spot.below("resources", label="not requested here") for main in mains if main and main.gpus]
    return Problem(message, asked, related=tuple(missing), help=remedy)


def _switches_off(found: Assignment, device: str) -> bool:
    if found.name == "NCCL_IB_DISABLE":
        return device != _EFA and found.integer not in (None, 0)
    if found.name == "NCCL_NET":
        return found.value is not None and found.value.lower() == "socket"
    return device == _EFA and found.value in ("tcp", "sockets")


def _may_reach_rdma(workload: Workload) -> bool:
    """True where some pod requests a device that may be a NIC, or may see the node's."""
    return any(
        _sees_the_node(pod_set)
        or any(mapping(mapping(_metadata(pod_set)).get("annotations")).get(key) for key in _ATTACHED)
        or bool(pod_set.spec.get("resourceClaims"))
        or any(not _ORDINARY.match(name) for container in pod_set.containers for name in container.limits)
        for pod_set in workload.pod_sets
    )


def _sees_the_node(pod_set: PodSet) -> bool:
    if pod_set.host_network or any(_security(container).get("privileged") is True for container in pod_set.containers):
        return True
    paths = (mapping(volume.get("hostPath")).get("path") for _, volume in entries(pod_set.spec.get("volumes")))
    return any(str(path).startswith("/dev") for path in paths)


def _metadata(pod_set: PodSet) -> object:
    try:
        return lookup(pod_set.template.object.data, (*pod_set.template.path, "metadata"))
    except KeyError:
        return None


def _security(container: Container) -> dict[object, object]:
    return dict(mapping(container.data.get("securityContext")))


def _may_lock(container: Container) -> bool:
    security = _security(container)
    added = sequence(mapping(security.get("capabilities")).get("add"))
    return security.get("privileged") is True or any(name in _LOCK for name in added if isinstance(name, str))


def _single_pod(workload: Workload) -> bool:
    return workload.pods is not None and workload.pods <= 1


def _unreachable(value: str, pod_set: PodSet) -> str:
    """Why no peer can be reached over what the value selects; empty where one may be."""
    if value.startswith("^"):
        if pod_set.host_network or mapping(mapping(_metadata(pod_set)).get("annotations")):
            return ""
        exact = value.startswith("^=")
        names = value.lstrip("^=").split(",")
        hit = [name for name in names if (name == _POD_INTERFACE if exact else _POD_INTERFACE.startswith(name))]
        return f"excludes {_POD_INTERFACE}, the only interface of a pod" if hit and hit[0] else ""
    for name in value.lstrip("=").split(","):
        if _ADDRESS.match(name) and "/" not in name:
            return "is an address: the name of an interface is expected"
        if _UNREACHABLE.match(name):
            return f"selects {name}, which no other node can reach"
    return ""
