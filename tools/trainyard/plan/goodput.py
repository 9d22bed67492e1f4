"""Checkpoints and failures: what a save costs, how often to save, and what is lost.

Young: interval = sqrt(2 x pause x M). Daly (2006, equation 37) adds the next terms. M is the mean time between failures
that stop the run, 1 / (nodes x rate); a failure costs half an interval of work, and the restart. A save in the
background stops training only while it is copied out of the GPU, but the next one waits until it is written.
"""

import math
from dataclasses import dataclass

from trainyard.plan.run import Run

BYTES_PER_WEIGHT = 12
"""fp32 weights and AdamW's two moments, which is what the trainer saves whatever the strategy."""

COPY_OF_LINE = 0.6
"""Of PCIe's line rate, what a copy to host memory reaches."""

HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Reliability:
    """What is known of the cluster. `assumed` names what is not its own fact."""

    failures_per_1000_node_days: float
    restart_seconds: float
    write: float
    """Bytes/s to storage, all nodes of the run together."""
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Goodput:
    """Checkpoints of a run that lasts `seconds` without failures."""

    bytes: float
    pause: float
    """Seconds that training stands still for a save."""
    write_seconds: float
    mtbf: float
    """Seconds between failures."""
    best_interval: float
    interval: float
    """Seconds between saves as the job sets them."""
    failures: float
    """Expected over the run."""
    lost: float
    """Seconds expected to be lost over the run at `interval`: saves, repeated work, restarts."""
    lost_at_best: float


def daly(pause: float, mtbf: float) -> float:
    """Best seconds between saves; `mtbf` where saving costs as much as failing."""
    if pause >= 2 * mtbf:
        return mtbf
    ratio = pause / (2 * mtbf)
    return math.sqrt(2 * pause * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - pause


def goodput(run: Run, reliability: Reliability, seconds: float, interval: float) -> Goodput:
    """Checkpoints of a run of `seconds`, saved every `interval` seconds."""
    size = BYTES_PER_WEIGHT * float(run.shape.parameters)
    pause = size / run.gpus / (run.gpu.pcie * COPY_OF_LINE)
    write_seconds = size / reliability.write
    mtbf = 1000 * DAY / (run.nodes * reliability.failures_per_1000_node_days)
    best = max(daly(pause, mtbf), 2 * write_seconds)
    restart = reliability.restart_seconds

    def lost(every: float) -> float:
        return seconds * (pause / every + (every / 2 + write_seconds + restart) / mtbf)

    return Goodput(
        bytes=size,
        pause=pause,
        write_seconds=write_seconds,
        mtbf=mtbf,
        best_interval=best,
        interval=interval,
        failures=seconds / mtbf,
        lost=lost(interval),
        lost_at_best=lost(best),
    )
