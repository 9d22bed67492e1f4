"""RDMA devices against the settings that use them, or leave them idle."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import add
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import (
    EFA,
    is_rdma,
    may_lock,
    may_reach_rdma,
    rdma_devices,
    sees_the_node,
    single_pod,
    training_containers_without,
)
from trainyard.rules.common.settings import Assignment, Environment, assignments, environments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries, mapping, text

_IMEX = ("imex", "compute-domain", "computedomain")


@rule("NCL003", "infiniband-off-with-rdma", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def infiniband_off_with_rdma(workload: Workload) -> Iterator[Problem]:
    """RDMA devices are requested, but NCCL is told not to use them.

    NCCL_IB_DISABLE=1 and NCCL_NET=Socket send all traffic over the pod network. The scarce devices are reserved and
    idle, at a small part of the bandwidth, and nothing is logged. NCCL_IB_DISABLE does not reach EFA, which a plugin
    drives; NCCL_NET, NCCL_NET_PLUGIN=none and FI_PROVIDER do.

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
    requested = rdma_devices(workload)
    for found in assignments(workload, "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER"):
        idle = [name for name in requested if _switches_off(found, name)]
        if idle:
            devices = requested[idle[0]]
            yield Problem(
                f"{found.name} is {found.value}, but the pods request {idle[0]}: {devices.value}",
                found.spot.saying("sends all traffic over the pod network"),
                related=(devices.spot.saying("reserved, and never used"),),
                help=f"remove {found.name}, or give the devices back",
                fix=unsafely(unset(found)),
            )


@rule("NCL004", "infiniband-without-rdma", Severity.WARNING, needs=Workload)
@once
def infiniband_without_rdma(workload: Workload) -> Iterator[Problem]:
    """NCCL is set up for InfiniBand, but no pod can reach an RDMA device.

    Without an RDMA resource, a network attachment, the node's network or a privileged container there is no
    /dev/infiniband in the pod. NCCL falls back to TCP and says so only at INFO level.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null, NCCL_IB_HCA: mlx5}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null, NCCL_IB_HCA: mlx5}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {rdma/hca: 1}}}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null, NCCL_IB_HCA: mlx5}
        ---
        kind: Job
        spec:
          template:
            metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail-0,rail-1"}}
            spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}

    Source: https://github.com/NVIDIA/aicr/issues/2276
    """
    if single_pod(workload) or may_reach_rdma(workload):
        return
    for each in environments(workload):
        off, net = each.get("NCCL_IB_DISABLE"), each.get("NCCL_NET")
        if (off is not None and off.is_on) or (net is not None and net.value):
            continue
        asking = [found for name in _FOR_INFINIBAND if (found := each.get(name)) and _asks_for_infiniband(found)]
        if asking:
            found = asking[0]
            yield Problem(
                f"{found.name} is {found.value}, but no pod requests an RDMA device",
                found.spot.saying("needs /dev/infiniband"),
                related=training_containers_without(workload),
                help="request the RDMA device in limits, or remove the setting",
            )
            return


@rule("NCL016", "rdma-without-memlock", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def rdma_without_memlock(workload: Workload) -> Iterator[Problem]:
    """A container gets an RDMA device, but not the right to lock memory.

    The device reads and writes pages that must stay where they are. Without the IPC_LOCK capability, and where the
    container runtime keeps its usual limit, registration fails, or NCCL falls back to TCP. Vendors lift that limit on
    their nodes: of plain manifests it is information, and EFA is left out.

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
            devices = [(name, limit.spot) for name, limit in container.limits.items() if is_rdma(name)]
            devices = devices or [(path, spot) for path, spot in _verbs(pod_set) if container.gpus]
            if devices and not may_lock(container):
                name, spot = devices[0]
                yield Problem(
                    f"container {container.name} gets {name}, but has neither IPC_LOCK nor privileged",
                    spot,
                    related=(container.spot.below("securityContext", "capabilities", label="IPC_LOCK is not here"),),
                    help="add IPC_LOCK to securityContext.capabilities.add",
                    severity=None if workload.in_job_folder else Severity.INFO,
                    fix=add(container.spot.below("securityContext", "capabilities", "add"), "IPC_LOCK").unsafe(),
                )


@rule("NCL019", "net-ib-without-rdma", Severity.ERROR, needs=Workload)
@once
def net_ib_without_rdma(workload: Workload) -> Iterator[Problem]:
    """NCCL_NET=IB demands InfiniBand, but no pod can reach an RDMA device, or it is switched off beside it.

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
    if single_pod(workload):
        return
    for each in environments(workload):
        found, off = each.get("NCCL_NET"), each.get("NCCL_IB_DISABLE")
        if found is None or (found.value or "").upper() != "IB":
            continue
        if off is not None and off.integer not in (None, 0) and not rdma_devices(workload):
            related: tuple[Spot, ...] = (off.spot,)
            why, remedy = f"NCCL_IB_DISABLE is {off.value}", "remove one of the two"
        elif not may_reach_rdma(workload):
            why, related = "no pod requests an RDMA device", training_containers_without(workload)
            remedy = "request the RDMA device in limits, or remove NCCL_NET"
        else:
            continue
        yield Problem(
            f"NCCL_NET is IB, but {why}",
            found.spot.saying("NCCL stops where it finds none"),
            related,
            remedy,
        )


@rule("NCL026", "multi-node-nvlink-without-memory", Severity.ERROR, needs=Workload)
@once
def multi_node_nvlink_without_memory(workload: Workload) -> Iterator[Problem]:
    """NVLink between nodes is forced, and the memory that it needs is switched off.

    NCCL_MNNVL_ENABLE=1 needs memory from cuMem. With NCCL_CUMEM_ENABLE=0, NCCL stops at the start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "1", NCCL_CUMEM_ENABLE: "0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "1"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "2", NCCL_CUMEM_ENABLE: "0"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-mnnvl-enable
    """
    for found, each in _forced_between_nodes(workload):
        memory = each.get("NCCL_CUMEM_ENABLE")
        if memory is not None and memory.integer == 0:
            yield Problem(
                "NCCL_MNNVL_ENABLE is 1, but NCCL_CUMEM_ENABLE is 0",
                found.spot.saying("forces NVLink between nodes"),
                related=(memory.spot,),
                help="remove one of the two settings",
            )


@rule("NCL077", "multi-node-nvlink-without-channel", Severity.INFO, needs=Workload)
@once
def multi_node_nvlink_without_channel(workload: Workload) -> Iterator[Problem]:
    """NVLink between nodes is forced, and no IMEX channel is seen in the pods of the ranks.

    NCCL_MNNVL_ENABLE=1 needs an IMEX channel inside each pod, or NCCL stops at the start. A ComputeDomain's claim gives
    one. A device plugin that is told so (`imex.channelIDs`) puts one into every pod with a GPU, which no manifest of
    the job shows. Left alone, NCCL looks for itself.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "1"}
        ---
        kind: Job
        spec:
          template:
            spec: {resourceClaims: [{name: imex, resourceClaimTemplateName: llama-sft-compute-domain}]}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MNNVL_ENABLE: "2"}

    Source: https://github.com/NVIDIA/k8s-device-plugin#configuration-option-details
    """
    for found, each in _forced_between_nodes(workload):
        if each.runs_ranks and not _has_imex(each.pod_set) and not single_pod(workload):
            yield Problem(
                "NCCL_MNNVL_ENABLE is 1, and the pods show no IMEX channel",
                found.spot.saying("forces NVLink between nodes"),
                help="claim a channel of a ComputeDomain in resourceClaims, unless the device plugin gives one",
            )


def _forced_between_nodes(workload: Workload) -> Iterator[tuple[Assignment, Environment]]:
    for each in environments(workload):
        found = each.get("NCCL_MNNVL_ENABLE")
        if found is not None and found.integer == 1:
            yield found, each


_FOR_INFINIBAND = (
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_TC",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_DISABLE",
)
"""Settings that ask for InfiniBand, the plainest first."""


def _asks_for_infiniband(found: Assignment) -> bool:
    return found.is_off if found.name == "NCCL_IB_DISABLE" else bool(found.value)


def _switches_off(found: Assignment, device: str) -> bool:
    value = (found.value or "").lower()
    if found.name == "NCCL_IB_DISABLE":
        return device != EFA and found.integer not in (None, 0)
    if found.name == "NCCL_NET":
        return value == "socket"
    if found.name == "NCCL_NET_PLUGIN":
        return device == EFA and value == "none"
    return device == EFA and value != "" and found.value is not None and "efa" not in value and value[0] != "^"


def _verbs(pod_set: PodSet) -> Iterator[tuple[str, Spot]]:
    """Volumes that bring the node's RDMA devices into the pod."""
    for index, volume in entries(pod_set.spec.get("volumes")):
        path = text(mapping(volume.get("hostPath")).get("path"))
        if path.startswith("/dev/infiniband"):
            yield path, pod_set.template.below("spec", "volumes", index, "hostPath", "path")


def _has_imex(pod_set: PodSet) -> bool:
    """Whether the pods have a claim, or anything that is named after IMEX."""
    if pod_set.spec.get("resourceClaims") or sees_the_node(pod_set):
        return True
    said = " ".join(str(pod_set.spec.get(field)) for field in ("volumes", "containers")).lower()
    return any(word in said for word in _IMEX)
