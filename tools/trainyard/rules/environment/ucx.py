"""UCX beside NCCL on one fabric."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import environments
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("ENV015", "traffic-classes-differ", Severity.WARNING, needs=Workload)
@once
def traffic_classes_differ(workload: Workload) -> Iterator[Problem]:
    """NCCL and UCX send in different traffic classes of one RoCE fabric.

    One of them goes through the lossless queue and the other through the one that drops. MPI benchmarks over UCX look
    healthy while NCCL suffers, or the other way round.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TC: "41", UCX_IB_TRAFFIC_CLASS: "106"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TC: "106", UCX_IB_TRAFFIC_CLASS: "106"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TC: "106", UCX_IB_TRAFFIC_CLASS: auto}

    Source: https://github.com/NVIDIA/nccl/issues/2383
    """
    for each in environments(workload):
        nccl, ucx = each.get("NCCL_IB_TC"), each.get("UCX_IB_TRAFFIC_CLASS")
        if nccl is None or ucx is None or nccl.integer is None or ucx.integer is None:
            continue
        if nccl.integer != ucx.integer:
            yield Problem(
                f"NCCL_IB_TC is {nccl.value}, but UCX_IB_TRAFFIC_CLASS is {ucx.value}",
                nccl.spot,
                related=(ucx.spot,),
                help="set both to the lossless class of the fabric",
            )
