"""EFA: the memory that it takes, and the protocols that it does not keep in order."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import EFA, rdma_devices
from trainyard.rules.common.settings import environments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.nccl.algorithms import allows_small
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, text


@rule("NCL065", "efa-without-huge-pages", Severity.INFO, needs=Workload)
@once
def efa_without_huge_pages(workload: Workload) -> Iterator[Problem]:
    """A container requests EFA, and no huge pages.

    The EFA provider takes its buffers from the node's huge pages, which a container without them in its limits may
    not touch. Newer releases of libfabric then take ordinary memory, which costs a little speed; older ones may end in
    a bus error. FI_EFA_USE_HUGE_PAGE=0 does without from the start.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4}}}]}}}
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4, hugepages-2Mi: 5120Mi}}}
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources: {limits: {vpc.amazonaws.com/efa: 4}}
                env: [{name: FI_EFA_USE_HUGE_PAGE, value: "0"}]

    Source: https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md
    """
    for each in environments(workload):
        limits = each.container.limits
        if EFA not in limits or any(name.startswith("hugepages-") for name in limits):
            continue
        volumes = (mapping(volume.get("emptyDir")) for _, volume in entries(each.pod_set.spec.get("volumes")))
        switch = each.get("FI_EFA_USE_HUGE_PAGE")
        if any(text(volume.get("medium")).startswith("HugePages") for volume in volumes):
            continue
        if each.complete if switch is None else not switch.is_off and switch.value is not None:
            yield Problem(
                f"container {each.container.name} requests {EFA}, but no huge pages, which the provider takes",
                limits[EFA].spot,
                help="add hugepages-2Mi, such as 5120Mi, to limits and requests, or set FI_EFA_USE_HUGE_PAGE to 0",
            )


@rule("NCL067", "efa-protocol", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def efa_protocol(workload: Workload) -> Iterator[Problem]:
    """NCCL_PROTO allows LL or LL128 over EFA.

    They count on bytes that arrive in order, which not every EFA adapter promises. The plugin sets NCCL_PROTO to
    Simple where it must, but only where nobody else did: a value in the manifest takes that guard away, and data may
    be corrupted without an error.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_PROTO: "LL,Simple"}
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
        data: {NCCL_DEBUG: WARN}
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
        data: {NCCL_PROTO: simple}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, resources: {limits: {vpc.amazonaws.com/efa: 4, hugepages-2Mi: 5120Mi}}}

    Source: https://github.com/aws/aws-ofi-nccl/blob/master/src/platform-aws.cpp
    """
    if EFA not in rdma_devices(workload):
        return
    for each in environments(workload):
        found = each.get("NCCL_PROTO")
        if found is not None and allows_small(found):
            yield Problem(
                f"NCCL_PROTO is {found.value} on EFA, which takes away the plugin's guard against bytes out of order",
                found.spot.saying("may corrupt data"),
                help="remove it: the plugin sets what the adapter can do",
                fix=unsafely(unset(found)),
            )
