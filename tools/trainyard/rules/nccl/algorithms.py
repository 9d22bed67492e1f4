"""How NCCL moves data: algorithms, protocols, buffers, channels, threads."""

from collections.abc import Iterable, Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.benchmarks import measured
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import EFA, gpu_models, rdma_devices
from trainyard.rules.common.settings import Assignment, assignments, environments
from trainyard.rules.common.variable_remedies import assigned, unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_GATHERING = frozenset({"ring", "collnet", "collnetdirect", "nvls", "pat"})
_ALGORITHMS = {
    "allgather": _GATHERING,
    "allreduce": frozenset({"tree", "ring", "collnet", "collnetdirect", "collnetchain", "nvls", "nvlstree"}),
    "broadcast": frozenset({"ring"}),
    "reduce": frozenset({"ring"}),
    "reducescatter": _GATHERING,
}
"""The algorithms that each collective has, read from src/device/generate.py of NCCL 2.31."""
_SMALLEST_BUFFER = 2**20
_LARGEST_BUFFER = 64 * 2**20
_DEFAULT_BUFFER = 4 * 2**20
_SOCKETS = 64


@rule("NCL011", "algorithm-pinned", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def algorithm_pinned(workload: Workload) -> Iterator[Problem]:
    """NCCL_ALGO or NCCL_PROTO takes the choice of algorithm from NCCL's tuner.

    The tuner chooses by collective, size and topology. A list that is right for one all-reduce leaves out NVLS or
    trees elsewhere, and the tuner of the OFI plugin does not load beside either. A benchmark of nccl-tests may be run
    to compare them: there it is information.

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
    over_efa, benchmark = EFA in rdma_devices(workload), measured(workload)
    collectives = _ALGORITHMS.keys() if benchmark is None else benchmark
    for each in environments(workload):
        for found in (each.get("NCCL_ALGO"), each.get("NCCL_PROTO")):
            facts = found.facts if found is not None else None
            if found is None or facts is None or not found.value or facts.refuses(found.value):
                continue
            told = bool(_left_out(found, collectives)) or forces_ll128(found) or (over_efa and allows_small(found))
            if told or each.get("NCCL_FASTRAK_IFNAME") is not None:
                continue
            yield Problem(
                f"{found.name} is fixed at {found.value}, so NCCL's tuner cannot choose by size and collective",
                found.spot,
                help="remove it from training jobs",
                fix=unsafely(unset(found)),
                severity=None if benchmark is None else Severity.INFO,
            )


@rule("NCL037", "algorithm-without-collectives", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def algorithm_without_collectives(workload: Workload) -> Iterator[Problem]:
    """NCCL_ALGO allows only algorithms that some collectives do not have.

    Trees exist for all-reduce alone, NVLS and CollNet for a few collectives. A broadcast, or the all-gather and
    reduce-scatter of FSDP and ZeRO, then has no algorithm left, and its first call fails. A program of nccl-tests calls
    one collective, and needs an algorithm for that one.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: Tree}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: "^Tree"}

    Source: https://github.com/NVIDIA/nccl/issues/317
    """
    benchmark = measured(workload)
    for found in assignments(workload, "NCCL_ALGO"):
        left = _left_out(found, _ALGORITHMS.keys() if benchmark is None else benchmark)
        if left:
            which = "some collectives" if benchmark is None else " and ".join(left)
            yield Problem(
                f"NCCL_ALGO is {found.value}, which leaves {which} without an algorithm",
                found.spot.saying("their first call fails"),
                help="remove it, or name the collective: allreduce:tree (NCCL 2.24 and later)",
                fix=unsafely(unset(found)),
            )


@rule("NCL038", "ll128-forced", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def ll128_forced(workload: Workload) -> Iterator[Problem]:
    """NCCL_PROTO allows LL128 everywhere.

    LL128 needs stores of 128 bytes to stay whole on their way. NCCL enables it only on hardware where they do; forced
    on another path it corrupts data, without an error.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_PROTO: "LL128,Simple"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: WARN}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_PROTO: "^LL128"}

    Source: https://github.com/NVIDIA/nccl/issues/790
    """
    if EFA in rdma_devices(workload):
        return
    for each in environments(workload):
        found = each.get("NCCL_PROTO")
        if found is None or not forces_ll128(found) or each.get("NCCL_FASTRAK_IFNAME") is not None:
            continue
        yield Problem(
            f"NCCL_PROTO is {found.value}, which allows LL128 on paths that may split its stores",
            found.spot.saying("may corrupt data"),
            help="remove it: NCCL uses LL128 where that is safe",
            fix=unsafely(unset(found)),
        )


@rule("NCL039", "buffer-shape", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def buffer_shape(workload: Workload) -> Iterator[Problem]:
    """NCCL_BUFFSIZE is not a power of two or out of all proportion, or a chunk is larger than its part of the buffer.

    Buffers are taken for each channel, peer and protocol: 256 MiB take gigabytes of GPU memory, and below 1 MiB the
    bandwidth goes. NCCL cuts NCCL_P2P_NET_CHUNKSIZE to an eighth of the buffer, whatever it says.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: "10000000"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: "8388608"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: "8388608", NCCL_P2P_NET_CHUNKSIZE: "524288"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-buffsize
    """
    for each in environments(workload):
        found, chunk = each.get("NCCL_BUFFSIZE"), each.get("NCCL_P2P_NET_CHUNKSIZE")
        size = _DEFAULT_BUFFER if found is None else found.integer
        if found is not None and size is not None and size > 0 and (reason := _odd_size(size)):
            yield Problem(
                f"NCCL_BUFFSIZE is {found.value}, {reason}",
                found.spot,
                help="remove it for 4 MiB, or write a power of two such as 8388608",
                fix=unsafely(unset(found)),
            )
        if chunk is not None and chunk.integer is not None and size is not None and chunk.integer > size // 8 > 0:
            yield Problem(
                f"NCCL_P2P_NET_CHUNKSIZE is {chunk.value}, and NCCL cuts it to an eighth of {size}: {size // 8}",
                chunk.spot,
                related=() if found is None else (found.spot,),
                help="raise NCCL_BUFFSIZE with it, or remove it",
            )


@rule("NCL040", "channel-bounds", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def channel_bounds(workload: Workload) -> Iterator[Problem]:
    """The bounds of NCCL's channels contradict each other.

    A minimum above the maximum is lowered without a word. NCCL_MIN_CTAS and NCCL_MAX_CTAS are newer names of
    NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS; where both are set, one of them is dead.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MIN_CTAS: "32", NCCL_MAX_CTAS: "16"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MIN_CTAS: "16", NCCL_MAX_CTAS: "32"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_MIN_CTAS: "16", NCCL_MAX_CTAS: "16"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-max-ctas
    """
    for each in environments(workload):
        for new, old in (("CTAS", "NCHANNELS"), ("NCHANNELS", "CTAS")):
            least, most = each.get(f"NCCL_MIN_{new}"), each.get(f"NCCL_MAX_{new}")
            above = least is not None and most is not None and (least.integer or 0) > (most.integer or 2**31)
            if least is not None and most is not None and above:
                yield Problem(
                    f"{least.name} is {least.value}, above {most.name}, which is {most.value}",
                    least.spot,
                    related=(most.spot,),
                    help="lower the minimum, or remove both",
                    fix=unsafely(assigned(least, str(most.value))),
                )
            mixed = each.get(f"NCCL_MIN_{old}", f"NCCL_MAX_{old}")
            if new == "CTAS" and (named := least or most) is not None and mixed is not None:
                yield Problem(
                    f"{named.name} and {mixed.name} bound the same channels",
                    mixed.spot,
                    related=(named.spot,),
                    help=f"keep {named.name}",
                    fix=unsafely(unset(mixed)),
                )


@rule("NCL041", "switched-multicast", Severity.INFO, needs=Workload, fix="unsafe")
@once
def switched_multicast(workload: Workload) -> Iterator[Problem]:
    """NVLink SHARP is switched off by hand, or demanded.

    NCCL_NVLS_ENABLE=0 is a left-over of faults in the fabric manager, and gives away the fastest all-reduce inside a
    node; 1 turns such faults into an error or a hang at the start. The default, 2, tries and goes on without.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NVLS_ENABLE: "0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NVLS_ENABLE: "2"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NVLS_ENABLE: "0"}
        ---
        kind: Cluster
        spec: {node: {gpu: A100-SXM-80GB}}

    Source: https://github.com/NVIDIA/nccl/issues/976
    """
    for found in assignments(workload, "NCCL_NVLS_ENABLE"):
        if found.integer in (0, 1) and not _before_hopper(workload):
            does = (
                "gives up the fastest all-reduce inside a node" if found.integer == 0 else "stops where it is missing"
            )
            yield Problem(
                f"NCCL_NVLS_ENABLE is {found.value}, which {does}",
                found.spot,
                help="remove it: NCCL tries it",
                fix=unsafely(unset(found)),
            )


@rule("NCL042", "graph-order", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def graph_order(workload: Workload) -> Iterator[Problem]:
    """NCCL_GRAPH_STREAM_ORDERING=0 is set without giving up mixed launches.

    NCCL may leave the order of CUDA graph launches to the program only where captured and plain launches of a
    communicator are never mixed. The pair is not supported otherwise.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_GRAPH_STREAM_ORDERING: "0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_GRAPH_STREAM_ORDERING: "0", NCCL_GRAPH_MIXING_SUPPORT: "0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_GRAPH_STREAM_ORDERING: "1"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-graph-mixing-support
    """
    for each in environments(workload):
        found, mixing = each.get("NCCL_GRAPH_STREAM_ORDERING"), each.get("NCCL_GRAPH_MIXING_SUPPORT")
        allowed = each.complete if mixing is None else mixing.integer not in (None, 0)
        if found is not None and found.integer == 0 and allowed:
            yield Problem(
                "NCCL_GRAPH_STREAM_ORDERING is 0, but NCCL_GRAPH_MIXING_SUPPORT is not",
                found.spot,
                related=() if mixing is None else (mixing.spot,),
                help="set both to 0, or neither",
                fix=unsafely(unset(found)),
            )


@rule("NCL043", "too-many-sockets", Severity.WARNING, needs=Workload)
@once
def too_many_sockets(workload: Workload) -> Iterator[Problem]:
    """Threads times sockets of a connection are more than NCCL takes.

    NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD may be 64 at most; NCCL lowers the sockets and goes on. Each thread
    keeps a CPU core busy that the data loader wants.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_NTHREADS: "16", NCCL_NSOCKS_PERTHREAD: "8"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_NTHREADS: "4", NCCL_NSOCKS_PERTHREAD: "4"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_NTHREADS: "8", NCCL_NSOCKS_PERTHREAD: "8"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-nthreads
    """
    for each in environments(workload):
        threads, sockets = each.get("NCCL_SOCKET_NTHREADS"), each.get("NCCL_NSOCKS_PERTHREAD")
        if threads is None or sockets is None or threads.integer is None or sockets.integer is None:
            continue
        product = threads.integer * sockets.integer
        if product > _SOCKETS:
            yield Problem(
                f"NCCL_SOCKET_NTHREADS {threads.value} x NCCL_NSOCKS_PERTHREAD {sockets.value} = {product},"
                f" and NCCL takes {_SOCKETS} at most",
                sockets.spot,
                related=(threads.spot,),
                help="lower one of the two",
            )


def forces_ll128(found: Assignment) -> bool:
    """Whether a value of NCCL_PROTO names LL128 as allowed."""
    listed = (found.value or "").lower()
    return found.name == "NCCL_PROTO" and any("ll128" in part and "^" not in part for part in listed.split(";"))


def allows_small(found: Assignment) -> bool:
    """Whether a value of NCCL_PROTO leaves LL or LL128 allowed, by name or by an exclusion that spares one of them."""
    value = (found.value or "").lower()
    if found.name != "NCCL_PROTO" or not value or (found.facts is not None and found.facts.refuses(value)):
        return False
    if value.startswith("^"):
        return not {"ll", "ll128"} <= set(value[1:].split(","))
    return forces_ll128(found) or any(word in ("ll", "ll128") for word in value.replace(":", ",").split(","))


def _left_out(found: Assignment, collectives: Iterable[str]) -> list[str]:
    """The collectives that NCCL_ALGO leaves without an algorithm. A value with `^` or `:` is not followed."""
    words = frozenset((found.value or "").lower().split(","))
    if found.name != "NCCL_ALGO" or not all(any(word in have for have in _ALGORITHMS.values()) for word in words):
        return []
    return sorted(collective for collective in collectives if words.isdisjoint(_ALGORITHMS[collective]))


def _odd_size(size: int) -> str:
    if size & (size - 1):
        return "which is not a power of two"
    if size < _SMALLEST_BUFFER:
        return "below 1 MiB"
    return "which is taken for each channel and peer" if size > _LARGEST_BUFFER else ""


def _before_hopper(workload: Workload) -> bool:
    models = gpu_models(workload).lower()
    return any(model in models for model in ("a100", "v100", "a10", "a30", "a40", "t4", "l4", "rtx"))
