"""EFA: libfabric's variables without the device, and those that the plugin makes itself."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import EFA, rdma_devices, sees_the_node, single_pod, training_containers_without
from trainyard.rules.common.settings import Assignment, Environment, environments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_NEED_EFA = ("FI_EFA_USE_DEVICE_RDMA", "FI_EFA_USE_HUGE_PAGE", "FI_EFA_SET_CUDA_SYNC_MEMOPS")
"""Not FI_EFA_FORK_SAFE, which recipes set for every program that forks, whether it finds an adapter or not."""
_SET_BY_PLUGIN = {
    "FI_EFA_USE_DEVICE_RDMA": "libfabric decides it by instance type",
    "FI_EFA_FORK_SAFE": "libfabric and the kernel handle forks",
    "RDMAV_FORK_SAFE": "EFA advises against it",
    "NCCL_TOPO_FILE": "it switches the plugin's own topology off",
    "NCCL_BUFFSIZE": "the plugin sets it by instance type",
    "NCCL_P2P_NET_CHUNKSIZE": "the plugin sets it by instance type",
    "NCCL_IB_HCA": "EFA is not InfiniBand",
    "NCCL_IB_GID_INDEX": "EFA is not InfiniBand",
    "NCCL_IB_TIMEOUT": "EFA is not InfiniBand",
}


@rule("ENV011", "efa-without-device", Severity.ERROR, needs=Workload)
@once
def efa_without_device(workload: Workload) -> Iterator[Problem]:
    """EFA is set up, but the containers that train do not request an EFA device.

    Without `vpc.amazonaws.com/efa` in limits libfabric finds no such provider, and NCCL goes on over TCP. Each role
    needs its own.

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
        spec:
          template:
            spec:
              containers:
              - {name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4, hugepages-2Mi: 5120Mi}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: tcp}

    Source: https://github.com/aws/sagemaker-hyperpod-cli/issues/306
    """
    if single_pod(workload) or any(sees_the_node(pod_set) for pod_set in workload.pod_sets):
        return
    requested = EFA in rdma_devices(workload)
    for each in environments(workload):
        found = _asks_for_efa(each)
        if found is None or (EFA in each.container.limits if each.container.gpus else requested):
            continue
        yield Problem(
            f"{found.name} is {found.value}, but no container requests {EFA}"
            if not requested
            else f"{found.name} is {found.value}, but {each.pod_set.role} does not request {EFA}",
            found.spot.saying("libfabric finds no such provider"),
            related=training_containers_without(workload, EFA),
            help=f"add {EFA} to limits and requests",
        )


@rule("ENV030", "efa-set-by-hand", Severity.INFO, needs=Workload, fix="unsafe")
@once
def efa_set_by_hand(workload: Workload) -> Iterator[Problem]:
    """A job on EFA sets by hand what the plugin and libfabric set for each instance type.

    A value that was right for p4d and an old plugin then also applies to newer instance types and plugins. NCCL_IB_
    variables have no effect on EFA.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: efa, FI_EFA_USE_DEVICE_RDMA: "1", NCCL_IB_HCA: null}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4, hugepages-2Mi: 5120Mi}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {FI_PROVIDER: efa, NCCL_IB_HCA: null}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4, hugepages-2Mi: 5120Mi}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: "8388608"}

    Source: https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md
    """
    if EFA not in rdma_devices(workload):
        return
    for each in environments(workload):
        for name, why in _SET_BY_PLUGIN.items():
            found = each.get(name)
            if found is not None and found.value:
                yield Problem(
                    f"{name} is set on EFA, but {why}",
                    found.spot,
                    help="remove it with a current plugin",
                    fix=unsafely(unset(found)),
                )


def _asks_for_efa(each: Environment) -> Assignment | None:
    """The variable that needs EFA, the plainest first."""
    provider, net = each.get("FI_PROVIDER"), each.get("NCCL_NET")
    if provider is not None:
        return provider if provider.value == "efa" else None
    if net is not None and net.value in ("AWS Libfabric", "aws-ofi"):
        return net
    return next((found for name in _NEED_EFA if (found := each.get(name)) is not None and found.value), None)
