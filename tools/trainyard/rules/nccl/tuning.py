"""Settings that are meant for debugging and stay in a training job."""

from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.rules.nccl.settings import assignments, env_is_known
from trainyard.rules.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_VERBOSE = ("INFO", "TRACE")


@rule("NCL007", "verbose-debug", Severity.INFO, needs=Workload)
@once
def verbose_debug(workload: Workload) -> Iterator[Problem]:
    """NCCL_DEBUG is INFO or TRACE in a training job.

    Every rank prints its topology at every start. At size this floods the log pipeline, and has pushed out the lines
    that mattered. WARN keeps the errors.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: INFO}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: VERSION}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug
    """
    for found in assignments(workload, "NCCL_DEBUG"):
        if found.value is not None and found.value.upper() in _VERBOSE:
            pods = workload.pods
            reach = f"every rank of {pods} pods" if pods is not None and pods > 1 else "every rank"
            yield Problem(
                f"NCCL_DEBUG is {found.value}: {reach} prints its topology at each start",
                found.spot,
                help="set it to WARN, and to INFO only while looking for a fault",
            )


@rule("NCL008", "subsystem-without-debug", Severity.INFO, needs=Workload)
@once
def subsystem_without_debug(workload: Workload) -> Iterator[Problem]:
    """NCCL_DEBUG_SUBSYS is set, but NCCL_DEBUG is below INFO.

    The list of subsystems filters INFO and TRACE lines only. With WARN or nothing there is nothing to filter.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN, NCCL_DEBUG_SUBSYS: ALL}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: INFO, NCCL_DEBUG_SUBSYS: "INIT,NET"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: trace, NCCL_DEBUG_SUBSYS: COLL}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug-subsys
    """
    levels = list(assignments(workload, "NCCL_DEBUG"))
    if any(level.value is None or level.value.upper() in _VERBOSE for level in levels):
        return
    for found in assignments(workload, "NCCL_DEBUG_SUBSYS"):
        if not levels and not env_is_known(workload, found.container):
            continue
        level = f"NCCL_DEBUG is {levels[0].value}" if levels else "NCCL_DEBUG is not set"
        yield Problem(
            f"NCCL_DEBUG_SUBSYS has no effect: {level}",
            found.spot,
            related=tuple(level.spot for level in levels[:1]),
            help="remove it, or set NCCL_DEBUG to INFO while looking for a fault",
        )


@rule("NCL010", "gid-index-pinned", Severity.WARNING, needs=Workload)
@once
def gid_index_pinned(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_GID_INDEX fixes the index of the RoCE address.

    Since 2.21 NCCL finds the address itself. The index of the wanted one differs between hosts, and with SR-IOV
    between pods: a fixed 3 is a host's habit, and 0 or 1 is often link-local or RoCE v1. A wrong one cannot connect.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_GID_INDEX: "3"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_ROCE_VERSION_NUM: "2"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_GID_INDEX: "-1"}

    Source: https://github.com/NVIDIA/nccl/issues/1573
    """
    for found in assignments(workload, "NCCL_IB_GID_INDEX"):
        if found.integer is not None and found.integer >= 0:
            yield Problem(
                f"NCCL_IB_GID_INDEX is fixed at {found.value}, but the index differs between hosts and pods",
                found.spot,
                help="remove it: NCCL 2.21 and later choose the address themselves",
            )


@rule("NCL011", "algorithm-pinned", Severity.WARNING, needs=Workload)
@once
def algorithm_pinned(workload: Workload) -> Iterator[Problem]:
    """NCCL_ALGO or NCCL_PROTO takes the choice of algorithm from NCCL's tuner.

    The tuner chooses by collective, size and topology. A list that is right for one all-reduce leaves out NVLS or
    trees elsewhere, an algorithm that a collective does not have stops it, and a forced LL128 can corrupt data on
    paths that split its stores.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: "Ring,Tree"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: ""}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo
    """
    for found in assignments(workload, "NCCL_ALGO", "NCCL_PROTO"):
        facts = found.facts
        if found.value and facts is not None and not facts.refuses(found.value):
            yield Problem(
                f"{found.name} is fixed at {found.value}, so NCCL's tuner cannot choose by size and collective",
                found.spot,
                help="remove it from training jobs",
            )


@rule("NCL012", "gdr-level-forced", Severity.WARNING, needs=Workload)
@once
def gdr_level_forced(workload: Workload) -> Iterator[Problem]:
    """NCCL_NET_GDR_LEVEL is forced, or a level is written so that NCCL drops it.

    NCCL measures how far a GPU and its NIC are apart and decides on GPUDirect itself; a level that was right for one
    node type is slow on the next, and has hung newer stacks. Numbers are a legacy scale, and words are compared with
    their case.

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
        yield Problem(message, found.spot, help="remove it: NCCL measures the distance itself")
