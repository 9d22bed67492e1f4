"""PyTorch's side: watchdog, flight recorder, memory, launch order."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import gpu_models, outlives_the_pod
from trainyard.rules.common.remedies import variable_of
from trainyard.rules.common.settings import Assignment, Environment, assignments, environments
from trainyard.rules.common.variable_remedies import assigned, unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.launch import argument
from trainyard.workload.model import Workload
from trainyard.workload.plain import digits

_SHORT_HEARTBEAT = 300
_ORDERED = "CUDA_DEVICE_MAX_CONNECTIONS"
_GRACE = 30
_PAIR = re.compile(r"\s*\w+\s*:\s*(\[[^\]]*\]|[^,:=\[\]]+)\s*")
_SWITCHES = frozenset({"expandable_segments", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register"})
_WORDS = {"true": "True", "1": "True", "false": "False", "0": "False"}
_DUMP_PREFIX = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


@rule("ENV017", "blocking-wait", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def blocking_wait(workload: Workload) -> Iterator[Problem]:
    """TORCH_NCCL_BLOCKING_WAIT holds the CPU in each wait.

    Communication no longer overlaps with computation, and the watchdog is off: there is no error handling, no desync
    report and no dump at a timeout, even where variables ask for them.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_BLOCKING_WAIT: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_BLOCKING_WAIT: "0"}

    Source: https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
    """
    for each in environments(workload):
        found = each.get("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
        if found is None or not found.is_on:
            continue
        names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_DESYNC_DEBUG", "TORCH_NCCL_DUMP_ON_TIMEOUT")
        dead = [other for name in names if (other := each.get(name)) is not None and other.is_on]
        yield Problem(
            f"{found.name} is {found.value}, so the CPU waits for each collective and the watchdog is off",
            found.spot,
            related=tuple(other.spot.saying("has no effect beside it") for other in dead),
            help="remove it; TORCH_NCCL_ASYNC_ERROR_HANDLING, on by default, ends a run whose peers are gone",
            fix=unsafely(unset(found)),
        )


@rule("ENV018", "errors-not-handled", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def errors_not_handled(workload: Workload) -> Iterator[Problem]:
    """A rank whose peer failed waits for ever.

    TORCH_NCCL_ASYNC_ERROR_HANDLING=0 leaves it in the collective, holding its GPUs. 1 and 3, the default, end the
    process once the flight recorder is written.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "1", TORCH_NCCL_DUMP_ON_TIMEOUT: "1"}

    Source: https://github.com/pytorch/pytorch/issues/121055
    """
    for each in environments(workload):
        found = each.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
        blocking = each.get("TORCH_NCCL_BLOCKING_WAIT")
        if found is None or (blocking is not None and blocking.is_on):
            continue
        if found.integer == 0:
            yield Problem(
                f"{found.name} is 0, so a rank whose peer failed waits for ever",
                found.spot.saying("holds its GPUs"),
                help="remove it: 3 is the default",
                fix=unsafely(unset(found)),
            )


@rule("ENV019", "watchdog-timers", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def watchdog_timers(workload: Workload) -> Iterator[Problem]:
    """The timers of PyTorch's watchdog kill healthy runs, or do not end stuck ones.

    A heartbeat shorter than a long compilation or a slow CUDA call ends a healthy job. Without the monitor nobody
    notices a watchdog that is stuck itself. A dump that takes longer than the pod's grace period is cut off.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: "60"}
    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ENABLE_MONITORING: "0"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: "600"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC: "60000"}
        ---
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 120}}}

    Source: https://github.com/pytorch/pytorch/pull/116267
    """
    for each in environments(workload):
        beat, monitor = each.get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"), each.get("TORCH_NCCL_ENABLE_MONITORING")
        dump = each.get("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")
        watched = monitor is None or not monitor.is_off
        if beat is not None and beat.integer is not None and 0 < beat.integer < _SHORT_HEARTBEAT and watched:
            yield Problem(
                f"{beat.name} is {beat.value}: a compilation that takes longer ends the run",
                beat.spot,
                help="leave it at 480 s, or raise it",
            )
        if monitor is not None and monitor.is_off:
            yield Problem(
                f"{monitor.name} is {monitor.value}, so nothing ends a rank whose watchdog is stuck",
                monitor.spot,
                help="remove it",
                fix=unsafely(unset(monitor)),
            )
        grace = each.pod_set.spec.get("terminationGracePeriodSeconds", _GRACE)
        if dump is not None and dump.integer is not None and isinstance(grace, int) and dump.integer > grace * 1000:
            yield Problem(
                f"{dump.name} is {dump.value} ms, longer than the {grace} s that a pod has to end",
                dump.spot,
                related=(each.pod_set.template.below("spec", "terminationGracePeriodSeconds"),),
                help=f"set terminationGracePeriodSeconds above {dump.integer // 1000}, or shorten the wait",
            )


@rule("ENV020", "flight-recorder-lost", Severity.INFO, needs=Workload)
@once
def flight_recorder_lost(workload: Workload) -> Iterator[Problem]:
    """A dump at a timeout is asked for, and nothing is recorded, or it vanishes with the pod.

    The flight recorder needs a buffer (2000 entries are usual), and a file on a volume that outlives the pod.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_DUMP_ON_TIMEOUT: "1", TORCH_FR_BUFFER_SIZE: "2000"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_DUMP_ON_TIMEOUT: "1", TORCH_FR_BUFFER_SIZE: "2000", TORCH_FR_DUMP_TEMP_FILE: /checkpoints/fr_}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_FR_BUFFER_SIZE: "2000"}

    Source: https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
    """
    for each in environments(workload):
        found, buffer, file = each.get("TORCH_NCCL_DUMP_ON_TIMEOUT"), each.get(*_BUFFER), each.get(*_DUMP_PREFIX)
        if found is None or not found.is_on:
            continue
        if buffer is not None and buffer.integer == 0:
            why, also = f"{buffer.name} is 0, so nothing is recorded", buffer
        elif file is None and each.complete:
            why, also = "the dump goes to /tmp and vanishes with the pod", None
        elif file is not None and file.value and not outlives_the_pod(each.pod_set, each.container, file.value):
            why, also = f"{file.value} vanishes with the pod", file
        else:
            continue
        yield Problem(
            f"{found.name} is {found.value}, but {why}",
            found.spot,
            related=() if also is None else (also.spot,),
            help="set TORCH_FR_BUFFER_SIZE to 2000, and TORCH_FR_DUMP_TEMP_FILE to a path on a volume",
        )


@rule("ENV021", "allocator-options", Severity.ERROR, needs=Workload, fix="safe")
@once
def allocator_options(workload: Workload) -> Iterator[Problem]:
    """PyTorch's allocator cannot read its options, and stops.

    The options are `name:value,name:value`, with a colon, and switches are True or False with a capital.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:true"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True,max_split_size_mb:512"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {PYTORCH_ALLOC_CONF: "roundup_power2_divisions:[256:1,512:2,>:4]"}

    Source: https://github.com/pytorch/pytorch/blob/main/c10/core/AllocatorConfig.h
    """
    for found in assignments(workload, "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"):
        if found.value and (reason := _unread(found.value)):
            yield Problem(
                f'{found.name} is "{found.value}", where {reason}',
                found.spot.saying("PyTorch stops"),
                help="write name:value pairs with commas between them, and True or False",
                fix=_with_true_and_false(found),
            )


@rule("ENV022", "launch-queue", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def launch_queue(workload: Workload) -> Iterator[Problem]:
    """CUDA_DEVICE_MAX_CONNECTIONS does not fit how the model is parallelised.

    One hardware queue fixes the order of launches. Megatron's sequence parallelism counts on it, and stops without
    it before Blackwell; FSDP's and ZeRO's gathers wait behind computation because of it.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {CUDA_DEVICE_MAX_CONNECTIONS: "1"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [train.py, --fsdp, full_shard]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {CUDA_DEVICE_MAX_CONNECTIONS: "1"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size, "8", --sequence-parallel]}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {CUDA_DEVICE_MAX_CONNECTIONS: "32"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [train.py, --fsdp, full_shard]}]}}}

    Source: https://github.com/pytorch/torchtitan/issues/1147
    """
    for each in environments(workload):
        found = each.get("CUDA_DEVICE_MAX_CONNECTIONS")
        sharded, ordered = _flag(each, "--fsdp", "--use-fsdp", "--use-torch-fsdp2"), _flag(each, "--sequence-parallel")
        if found is not None and found.integer == 1 and sharded and not ordered:
            yield Problem(
                "CUDA_DEVICE_MAX_CONNECTIONS is 1, so FSDP's gathers wait behind computation",
                found.spot,
                help="remove it: it is for Megatron's tensor and sequence parallelism",
                fix=unsafely(unset(found)),
            )
        wrong = each.complete if found is None else found.integer not in (None, 1)
        if ordered and wrong and _tensor_parallel(each) and not _is_blackwell(workload):
            now = "not set" if found is None else found.value
            yield Problem(
                f"CUDA_DEVICE_MAX_CONNECTIONS is {now}, and Megatron's sequence parallelism needs 1",
                each.container.spot.below("env") if found is None else found.spot,
                help="set it to 1",
                fix=unsafely(variable_of(each.container, _ORDERED, "1") if found is None else assigned(found, "1")),
            )


@rule("ENV023", "nonblocking-communicators", Severity.INFO, needs=Workload, fix="unsafe")
@once
def nonblocking_communicators(workload: Workload) -> Iterator[Problem]:
    """TORCH_NCCL_USE_COMM_NONBLOCKING=1 makes communicators in the background.

    It has hung jobs at their start, and gains little in training.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_USE_COMM_NONBLOCKING: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_USE_COMM_NONBLOCKING: "0"}

    Source: https://github.com/pytorch/pytorch/issues/153960
    """
    for found in assignments(workload, "TORCH_NCCL_USE_COMM_NONBLOCKING"):
        if found.is_on:
            yield Problem(
                f"{found.name} is {found.value}, which has hung jobs at their start",
                found.spot,
                help="remove it",
                fix=unsafely(unset(found)),
            )


def _unread(value: str) -> str:
    """What of the allocator's options cannot be read; empty where all can."""
    rest = value
    while rest:
        pair = _PAIR.match(rest)
        if pair is None or (pair.end() < len(rest) and rest[pair.end()] != ","):
            return f'"{rest}" is not a valid name:value pair'
        name, _, given = pair[0].partition(":")
        if name.strip() in _SWITCHES and given.strip() not in ("True", "False"):
            return f"{name.strip()} is {given.strip()}, neither True nor False"
        rest = rest[pair.end() + 1 :]
    return ""


def _with_true_and_false(found: Assignment) -> Remedy | None:
    """The options with other spellings of True and False put right, where that is all that is wrong."""
    pairs = [pair.partition(":") for pair in (found.value or "").split(",")]
    mended = ",".join(
        f"{name}:{_WORDS.get(given.strip().lower(), given) if name.strip() in _SWITCHES else given}"
        for name, _, given in pairs
    )
    return None if _unread(mended) else assigned(found, mended)


def _flag(each: Environment, *names: str) -> bool:
    launch = each.container.launch
    found = None if launch is None else argument(launch.program, names)
    return found is not None and found.value not in (None, "", "False", "false")


def _tensor_parallel(each: Environment) -> bool:
    launch = each.container.launch
    size = None if launch is None else argument(launch.program, ("--tensor-model-parallel-size",))
    return size is not None and (digits(str(size.value)) or 0) > 1


def _is_blackwell(workload: Workload) -> bool:
    return re.search(r"[gb]b?[23]00", gpu_models(workload).lower()) is not None
