"""Settings against the fabric that carries the traffic: classes, queue pairs, rails, the transport that is demanded."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import EFA, annotations, rdma_devices, single_pod
from trainyard.rules.common.settings import Environment, environments
from trainyard.rules.nccl.infiniband import is_roce, over_infiniband
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_DEFAULT_BUFFER = 4 * 2**20
_RAIL = re.compile(r"\brail[-_]?\d+", re.IGNORECASE)


@rule("NCL033", "default-traffic-class", Severity.INFO, needs=Workload)
@once
def default_traffic_class(workload: Workload) -> Iterator[Problem]:
    """NCCL runs over RoCE in traffic class 0.

    On most RoCE fabrics class 0 is the queue that drops. Losses are sent again, and the bandwidth under load is a
    part of what it should be. The fabric's operator knows the lossless class.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_ROCE_VERSION_NUM: "2"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_ROCE_VERSION_NUM: "2", NCCL_IB_TC: "106"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: mlx5}

    Source: https://github.com/NVIDIA/nccl/issues/378
    """
    for each in environments(workload):
        main = each.get("NCCL_IB_HCA", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_GID_INDEX")
        if (
            main is not None
            and is_roce(workload, each)
            and each.lacks("NCCL_IB_TC")
            and over_infiniband(workload, each)
        ):
            yield Problem(
                "NCCL_IB_TC is not set on RoCE, so traffic goes in class 0, which most fabrics may drop",
                main.spot,
                help="set NCCL_IB_TC to the lossless class of the fabric",
            )


@rule("NCL034", "queue-pairs", Severity.INFO, needs=Workload)
@once
def queue_pairs(workload: Workload) -> Iterator[Problem]:
    """The number of queue pairs does not fit how the fabric spreads traffic.

    One queue pair is one path by its hash: over a bond, half of the bond can idle. Adaptive routing spreads packets
    by itself, and more queue pairs then only cost the NIC; and a message that never reaches NCCL_IB_AR_THRESHOLD,
    since the buffer is smaller, is never routed adaptively.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "mlx5_bond_0,mlx5_bond_1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "mlx5_bond_0,mlx5_bond_1", NCCL_IB_QPS_PER_CONNECTION: "4"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: mlx5, NCCL_IB_QPS_PER_CONNECTION: "1"}

    Source: https://github.com/NVIDIA/nccl/issues/1015
    """
    for each in environments(workload):
        pairs, adapters = each.get("NCCL_IB_QPS_PER_CONNECTION"), each.get("NCCL_IB_HCA")
        adaptive, threshold = each.get("NCCL_IB_ADAPTIVE_ROUTING"), each.get("NCCL_IB_AR_THRESHOLD")
        if adapters is not None and "bond" in (adapters.value or "") and _one_pair(each):
            yield Problem(
                f"NCCL_IB_HCA is {adapters.value}, and one queue pair per connection uses one link of each bond",
                adapters.spot,
                help="set NCCL_IB_QPS_PER_CONNECTION to 2 or 4",
            )
        if pairs is not None and (pairs.integer or 0) > 1 and adaptive is not None and adaptive.integer == 1:
            yield Problem(
                f"NCCL_IB_QPS_PER_CONNECTION is {pairs.value} beside adaptive routing, which spreads packets itself",
                pairs.spot,
                related=(adaptive.spot,),
                help="leave it at 1",
            )
        buffer = each.get("NCCL_BUFFSIZE")
        size = _DEFAULT_BUFFER if buffer is None else buffer.integer
        if threshold is not None and threshold.integer is not None and size is not None and threshold.integer > size:
            yield Problem(
                f"NCCL_IB_AR_THRESHOLD is {threshold.value}, above the buffer of {size}, so no message reaches it",
                threshold.spot,
                help="lower it below NCCL_BUFFSIZE, or remove it",
            )


@rule("NCL035", "rail-crossing", Severity.WARNING, needs=Workload)
@once
def rail_crossing(workload: Workload) -> Iterator[Problem]:
    """The pods are attached to rails, and NCCL is told to cross them.

    Each rail has switches of its own, so that the GPUs of one index talk without the spine. NCCL_CROSS_NIC=1 sends
    traffic from one rail to another, and NCCL_PXN_DISABLE=1 forbids the hop over NVLink that would keep it on its
    rail.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CROSS_NIC: "1"}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail-0,rail-1,rail-2,rail-3"}}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CROSS_NIC: "0"}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail-0,rail-1,rail-2,rail-3"}}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CROSS_NIC: "1"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-cross-nic
    """
    for each in environments(workload):
        rails = {rail for text in annotations(each.pod_set).values() for rail in _RAIL.findall(text)}
        if len(rails) < 2:
            continue
        for name, does in (("NCCL_CROSS_NIC", "crosses them"), ("NCCL_PXN_DISABLE", "makes traffic cross them")):
            found = each.get(name)
            if found is not None and found.integer == 1:
                yield Problem(
                    f"the pods are on {len(rails)} rails, and {name}=1 {does}",
                    found.spot,
                    help=f"remove {name}",
                )


@rule("NCL036", "transport-not-demanded", Severity.INFO, needs=Workload)
@once
def transport_not_demanded(workload: Workload) -> Iterator[Problem]:
    """RDMA devices are requested, but NCCL may go without them.

    NCCL tries the next transport where one fails: a missing driver, library or device turns into TCP at a small part
    of the bandwidth, in a run that looks healthy. NCCL_NET names the one that must work, and NCCL stops without it.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: IB}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: AWS Libfabric}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net
    """
    devices = rdma_devices(workload)
    if not devices or single_pod(workload):
        return
    for each in environments(workload):
        asked = next((each.container.limits[name] for name in devices if name in each.container.limits), None)
        if asked is not None and each.container.gpus and each.lacks("NCCL_NET", "NCCL_IB_DISABLE"):
            wanted = "AWS Libfabric" if EFA in each.container.limits else "IB"
            yield Problem(
                "NCCL_NET is not set, so NCCL goes over TCP where it cannot use the devices",
                asked.spot.saying("may stay unused without a message"),
                help=f"set NCCL_NET to {wanted}, so that NCCL stops instead",
            )


def _one_pair(each: Environment) -> bool:
    pairs = each.get("NCCL_IB_QPS_PER_CONNECTION")
    return each.lacks("NCCL_IB_QPS_PER_CONNECTION") if pairs is None else pairs.integer == 1
