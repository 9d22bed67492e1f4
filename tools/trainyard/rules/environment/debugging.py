"""Switches of PyTorch and CUDA for finding faults, and their price."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import assignments
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_COSTLY = {
    "TORCH_NCCL_DESYNC_DEBUG": "records an event for each collective",
    "TORCH_NCCL_NAN_CHECK": "reads each buffer once more",
    "TORCH_NCCL_TRACE_CPP_STACK": "takes a stack trace at each collective",
    "TORCH_FR_CPP_STACK": "takes a stack trace at each collective",
    "CUDA_LAUNCH_BLOCKING": "waits for each kernel",
}


@rule("ENV016", "debugging-left-on", Severity.INFO, needs=Workload, fix="unsafe")
@once
def debugging_left_on(workload: Workload) -> Iterator[Problem]:
    """A switch of PyTorch or CUDA that is meant for finding faults is on.

    Each makes every step slower: checks over Gloo, events, stack traces, kernels that wait for each other.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {CUDA_LAUNCH_BLOCKING: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_DISTRIBUTED_DEBUG: "OFF"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_DISTRIBUTED_DEBUG: INFO}

    Source: https://docs.pytorch.org/docs/stable/distributed.html
    """
    for found in assignments(workload, "TORCH_DISTRIBUTED_DEBUG", *_COSTLY):
        detail = found.name == "TORCH_DISTRIBUTED_DEBUG"
        if (found.value or "").upper() == "DETAIL" if detail else found.is_on:
            does = "checks each collective over Gloo" if detail else _COSTLY[found.name]
            yield Problem(
                f"{found.name} is {found.value}, which {does}",
                found.spot,
                help="remove it from training jobs",
                fix=unsafely(unset(found)),
            )
