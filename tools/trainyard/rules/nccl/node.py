"""What happens inside a node: shared memory, NVLink, who counts as one host, the files that describe the machine."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import has_no_nvlink, may_place_memory, mount_of, single_pod
from trainyard.rules.common.settings import Assignment, assignments, environments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.common.volumes import mounts
from trainyard.rules.nccl.image import release
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_ON_AZURE_HOSTS = PurePosixPath("/opt/microsoft")
_AZURE_IMAGES = re.compile(r"mcr\.microsoft\.com/")

_NEAR = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN")
"""Levels of distance up to which a pair of GPU and NIC needs no way over the processor."""


@rule("NCL012", "gdr-level-forced", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def gdr_level_forced(workload: Workload) -> Iterator[Problem]:
    """NCCL_NET_GDR_LEVEL is forced, or a level is written so that NCCL drops it.

    NCCL measures how far a GPU and its NIC are apart and decides on GPUDirect itself; a level that was right for one
    node type is slow on the next, and PHB and SYS have hung newer stacks. A nearer level only uses GPUDirect less than
    NCCL would, which is information. Numbers are a legacy scale, and words are compared with their case.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET_GDR_LEVEL: SYS}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_P2P_LEVEL: NVL}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level
    """
    for found in assignments(workload, "NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"):
        facts, value = found.facts, found.value
        if not value or facts is None:
            continue
        if value.isdecimal():
            message = f"{found.name} is {value}, a number of a legacy scale"
        elif facts.refuses(value):
            message = f'{found.name} is "{value}", which {facts.refuses(value)}'
        elif found.name == "NCCL_NET_GDR_LEVEL":
            message = f"NCCL_NET_GDR_LEVEL is forced to {value} instead of measured"
        else:
            continue
        yield Problem(
            message,
            found.spot,
            help="remove it: NCCL measures the distance itself",
            fix=unsafely(unset(found)),
            severity=Severity.INFO if value in _NEAR else None,
        )


@rule("NCL044", "shared-memory-off", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def shared_memory_off(workload: Workload) -> Iterator[Problem]:
    """NCCL_SHM_DISABLE=1 sends traffic inside a node through the NIC or a socket.

    It hides that /dev/shm is too small, at the price of the fastest way between GPUs without NVLink. Mount memory
    there instead: data loaders need it, too.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SHM_DISABLE: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SHM_DISABLE: "0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SHM_DISABLE: "1"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 1}}}}]}}}

    Source: https://github.com/NVIDIA/nccl/issues/525
    """
    for found in assignments(workload, "NCCL_SHM_DISABLE"):
        if found.integer not in (None, 0) and _several_gpus(workload, found):
            yield Problem(
                f"NCCL_SHM_DISABLE is {found.value}, so GPUs of one node talk through the NIC or a socket",
                found.spot,
                help="remove it, and mount an emptyDir with medium Memory on /dev/shm",
                fix=unsafely(unset(found)),
            )


@rule("NCL045", "peer-access-off", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def peer_access_off(workload: Workload) -> Iterator[Problem]:
    """NCCL_P2P_DISABLE=1 takes NVLink from a pod with several GPUs.

    It is the classic test for trouble with ACS or the IOMMU, and is left behind. Traffic between GPUs of a node then
    crosses host memory. Where NCCL_P2P_LEVEL is set beside it, the switch wins.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_P2P_DISABLE: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_P2P_DISABLE: "0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_P2P_DISABLE: "1"}
        ---
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-GeForce-RTX-4090}}}}

    Source: https://github.com/NVIDIA/nccl/issues/631
    """
    for each in environments(workload):
        found, level = each.get("NCCL_P2P_DISABLE"), each.get("NCCL_P2P_LEVEL")
        if found is None or found.integer in (None, 0) or not _several_gpus(workload, found) or has_no_nvlink(workload):
            continue
        yield Problem(
            f"NCCL_P2P_DISABLE is {found.value}, so GPUs of one node do not use NVLink",
            found.spot,
            related=() if level is None else (level.spot.saying("has no effect beside the switch"),),
            help="remove it: a switch for finding faults",
            fix=unsafely(unset(found)),
        )


@rule("NCL046", "host-id-shared", Severity.WARNING, needs=Workload)
@once
def host_id_shared(workload: Workload) -> Iterator[Problem]:
    """NCCL_HOSTID is the same text in pods of several nodes.

    NCCL takes ranks of one id for neighbours and connects them by shared memory and NVLink, which do not cross nodes:
    the job hangs or dies at the start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_HOSTID: llama-sft}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, env: [{name: NCCL_HOSTID, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_HOSTID: llama-sft}
        ---
        kind: Job
        spec: {completions: 1, parallelism: 1}

    Source: https://github.com/NVIDIA/nccl/issues/1781
    """
    if single_pod(workload):
        return
    for found in assignments(workload, "NCCL_HOSTID"):
        count = found.pod_set.count.value
        if found.value and count is not None and count > 1:
            yield Problem(
                f"NCCL_HOSTID is {found.value} in all {count} pods, so NCCL takes their nodes for one",
                found.spot,
                help="take it from spec.nodeName by the downward API, or remove it",
            )


@rule("NCL047", "duplicate-gpu-allowed", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def duplicate_gpu_allowed(workload: Workload) -> Iterator[Problem]:
    """NCCL_MULTI_RANK_GPU_ENABLE=1 lets two ranks share a GPU.

    NCCL's refusal of two ranks on one GPU is what catches a wrong LOCAL_RANK. With the switch, half of the GPUs can
    idle in a run that looks healthy.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MULTI_RANK_GPU_ENABLE: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MULTI_RANK_GPU_ENABLE: "0"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    for found in assignments(workload, "NCCL_MULTI_RANK_GPU_ENABLE"):
        if found.integer == 1:
            yield Problem(
                "NCCL_MULTI_RANK_GPU_ENABLE is 1, so NCCL does not notice two ranks on one GPU",
                found.spot,
                help="remove it",
                fix=unsafely(unset(found)),
            )


@rule("NCL048", "file-not-in-pod", Severity.WARNING, needs=Workload)
@once
def file_not_in_pod(workload: Workload) -> Iterator[Problem]:
    """A variable names a file that the pod does not have.

    NCCL goes on without a topology or configuration file that it cannot read, and says so at INFO level only: a
    virtual machine then runs without the topology that it needs. Files of the host, such as Azure's under
    /opt/microsoft, must be mounted; a ConfigMap must have the key.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_TOPO_FILE: /opt/microsoft/ndv5-topo.xml}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_TOPO_FILE: /opt/microsoft/ndv5-topo.xml}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, volumeMounts: [{name: topology, mountPath: /opt/microsoft}]}]
              volumes: [{name: topology, hostPath: {path: /opt/microsoft}}]
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_TOPO_FILE: /opt/topology/node.xml}

    Source: https://github.com/Azure/azhpc-images/issues/327
    """
    for found in assignments(workload, "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE"):
        if found.value and (reason := _missing(workload, found, PurePosixPath(found.value))):
            yield Problem(
                f"{found.name} is {found.value}, and {reason}",
                found.spot.saying("not in the pod"),
                help="mount the file there, or correct the path",
            )


@rule("NCL049", "host-memory-without-numa", Severity.WARNING, needs=Workload)
@once
def host_memory_without_numa(workload: Workload) -> Iterator[Problem]:
    """The image's NCCL takes host memory by calls that the container may not make.

    NCCL 2.24 to 2.26.4 use cuMem for host memory by default, which needs NUMA calls that the usual seccomp profile
    blocks without SYS_NICE. They fail instead of falling back; 2.26.5 tries first. This rule knows the release from
    `ncclVersion`, and is silent without it.

    Bad:
        kind: TrainingJob
        spec: {ncclVersion: "2.25.1"}
    Good:
        kind: TrainingJob
        spec: {ncclVersion: "2.25.1"}
        ---
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CUMEM_HOST_ENABLE: "0"}
    Near miss:
        kind: TrainingJob
        spec: {ncclVersion: "2.26.5"}

    Source: https://github.com/NVIDIA/nccl/issues/2190
    """
    image = release(workload)
    if image is None or not (2, 24) <= image < (2, 26, 5):
        return
    for each in environments(workload):
        asked = each.get("NCCL_CUMEM_HOST_ENABLE")
        used = each.complete if asked is None else asked.integer == 1
        if used and each.container.gpus and not may_place_memory(each.pod_set, each.container):
            yield Problem(
                f"NCCL {'.'.join(map(str, image))} takes host memory by NUMA calls that the container may not make",
                each.container.spot.below("securityContext") if asked is None else asked.spot,
                help="set NCCL_CUMEM_HOST_ENABLE to 0, or use NCCL 2.26.5 and later",
            )


def _several_gpus(workload: Workload, found: Assignment) -> bool:
    """Whether the ranks that get a variable share a node: a launcher's are those of the workers."""
    if found.container.gpus:
        return found.container.gpus > 1
    return any(main.gpus > 1 for pod_set in workload.pod_sets if (main := pod_set.main()))


def _missing(workload: Workload, found: Assignment, path: PurePosixPath) -> str:
    """Why a file cannot be there; empty where it may be."""
    if mount_of(found.pod_set, found.container, str(path)) is None:
        on_host = path.is_relative_to(_ON_AZURE_HOSTS) and not _AZURE_IMAGES.match(found.container.image)
        return "nothing is mounted there: the file lies on the host" if on_host else ""
    for mount in mounts(found.pod_set):
        config = mount.volume.data.get("name") if mount.volume.source == "configMap" else None
        if mount.container is not found.container or mount.path != path.parent or mount.volume.data.get("items"):
            continue
        for item in workload.of_kind("ConfigMap") if config else ():
            keys = {*mapping(item.data.get("data")), *mapping(item.data.get("binaryData"))}
            if item.name == config and path.name not in keys:
                return f"ConfigMap {config} has no key {path.name}"
    return ""
