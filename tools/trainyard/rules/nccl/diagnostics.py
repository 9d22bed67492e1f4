"""What NCCL prints and records to find faults: the price of it, and what is lost."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.benchmarks import measured
from trainyard.rules.common.counts import number
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import gpus, outlives_the_pod, single_pod
from trainyard.rules.common.settings import assignments, env_is_known, environments
from trainyard.rules.common.variable_remedies import assigned, unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_VERBOSE = ("INFO", "TRACE")
_LOUD = 16


@rule("NCL007", "verbose-debug", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def verbose_debug(workload: Workload) -> Iterator[Problem]:
    """NCCL_DEBUG is INFO or TRACE in a job of 16 ranks and more.

    Every rank prints its topology at every start. At size this floods the log pipeline: the kubelet cuts the pod's
    log, and the lines that mattered are gone. WARN keeps the errors; a file with %h and %p in its name keeps all. A
    benchmark of nccl-tests may be run to read the topology: there it is information.

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
        data: {NCCL_DEBUG: INFO, NCCL_DEBUG_FILE: "/checkpoints/llama-sft/nccl.%h.%p"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug
    """
    ranks = gpus(workload)
    if ranks is not None and ranks < _LOUD:
        return
    for each in environments(workload):
        found, file = each.get("NCCL_DEBUG"), each.get("NCCL_DEBUG_FILE")
        if found is None or found.value is None or found.value.upper() not in _VERBOSE:
            continue
        if file is None or file.value in ("stdout", "stderr", ""):
            reach = "each rank" if ranks is None else f"each of {number(ranks, 'rank')}"
            yield Problem(
                f"NCCL_DEBUG is {found.value}: {reach} prints its topology at each start",
                found.spot,
                help="set it to WARN, and to INFO only while looking for a fault",
                fix=unsafely(assigned(found, "WARN")),
                severity=None if measured(workload) is None else Severity.INFO,
            )


@rule("NCL008", "subsystem-without-debug", Severity.INFO, needs=Workload, fix="safe")
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
        data: {NCCL_DEBUG: INFO, NCCL_DEBUG_SUBSYS: "INIT,NET", NCCL_DEBUG_FILE: "/tmp/nccl.%h.%p"}
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
            fix=unset(found),
        )


@rule("NCL050", "debug-file-shared", Severity.WARNING, needs=Workload)
@once
def debug_file_shared(workload: Workload) -> Iterator[Problem]:
    """All ranks write their NCCL log to one file.

    Without %h (host) and %p (process) in NCCL_DEBUG_FILE the name is the same everywhere, and on a shared volume the
    ranks overwrite each other.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG_FILE: /checkpoints/nccl.log}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG_FILE: "/checkpoints/nccl.%h.%p.log"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG_FILE: /dev/stdout}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug-file
    """
    for found in assignments(workload, "NCCL_DEBUG_FILE"):
        path = found.value or ""
        if not path.startswith("/") or not outlives_the_pod(found.pod_set, found.container, path):
            continue
        lacking = [mark for mark in ("%h", "%p") if mark not in path]
        if lacking and not ("%h" not in lacking and found.container.gpus == 1) and not single_pod(workload):
            yield Problem(
                f"NCCL_DEBUG_FILE is {path} for every rank: {' and '.join(lacking)} is missing",
                found.spot.saying("on a volume that the pods share"),
                help="put %h (host) and %p (process) into the name",
            )
