"""What a rank sets for its own process, before PyTorch is imported, and the launcher that it does not outlive."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from trainer.config import Config
from trainer.errors import PeerLostError
from trainer.launch import Ranks

TRACES = "flight-recorder"
"""Folder beside a run's checkpoints, into which each rank writes its last collectives when one of them hangs."""

WATCHED = ("torchrun", "mpirun")
"""Launchers that stay as long as their ranks; a shell or a notebook may end and mean its run to go on."""

EVERY_SECONDS = 1.0


def set_variables(config: Config, environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets what PyTorch reads from the environment, where nobody has set it: GPU memory in segments that can grow, and
    NCCL's flight recorder, with its dump when a collective takes too long."""
    traces = str(Path(config.checkpoint.dir) / config.run / TRACES / "rank-")
    for names, value in {
        ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"): "expandable_segments:True",
        ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"): "2000",
        ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"): traces,
        ("TORCH_NCCL_DUMP_ON_TIMEOUT",): "1",
    }.items():
        if not any(name in environment for name in names):
            environment[names[0]] = value


def end_with_launcher(ranks: Ranks) -> None:
    """Ends this process soon after the launcher that started it is gone, as after kill -9: whatever the process waits
    for then, nobody else would end it. A launcher that is gone before this is called cannot be told from others."""
    if ranks.launcher not in WATCHED:
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(EVERY_SECONDS)
        sys.stderr.write(f"error: rank {ranks.rank}: {ranks.launcher} is gone, which was process {parent}\n")
        sys.stderr.flush()
        os._exit(PeerLostError.code)

    threading.Thread(target=watch, name="launcher", daemon=True).start()


@contextmanager
def collecting(every_steps: int) -> Iterator[Callable[[int], object]]:
    """Has garbage collected where what it gives is called with a step at which it is due; 0: when Python likes.

    All ranks do it at the same steps: one that stops for it at a time of its own holds up all others.
    """
    if not every_steps:
        yield lambda _: None
        return
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through again
    gc.disable()
    try:
        yield lambda step: gc.collect() if step % every_steps == 0 else None
    finally:
        gc.enable()
        gc.unfreeze()


def cores() -> int:
    """Cores that this process may use: those of its affinity, or its control group's share where that is less."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):  # no control groups of version 2
        return allowed
    return allowed if quota == "max" else max(1, min(allowed, int(quota) // int(period)))


def threads(config: Config, ranks: Ranks, offloads: bool) -> int:
    """Threads that this rank computes with on the host; 0: as the environment says.

    torchrun sets OMP_NUM_THREADS=1 where nothing else is said, which is right for ranks that only start kernels, and
    would have one core step an optimizer that is offloaded.
    """
    return config.threads or (max(1, cores() // ranks.local_world) if offloads else 0)
