"""Where each rank stands when a rehearsal hangs."""

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainyard.rehearse.engine import Engine
from trainyard.rehearse.open_beneath import folder, read
from trainyard.rehearse.process import below, catches, signal_process, variable

_DUMP_SECONDS = 0.7
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
RANK = ("RANK", "OMPI_COMM_WORLD_RANK")


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a process stands."""

    pod: str
    rank: str
    """Empty for one that is not a rank, such as torchrun itself."""
    at: str
    """The innermost line of its main thread, and the line of the training program above it."""
    whole: str


def stacks(engine: Engine) -> tuple[Stack, ...]:
    """Ask every Python process of every pod, and read what they leave."""
    asked = []
    for pod in engine.pods.values():
        roots = [process.pid for _, process in pod.processes() if process.pid is not None]
        for each in (each for found in below(roots).values() for each in found):
            if catches(each.pid, signal.SIGUSR2) and (inside := _inside(each.pid)) is not None:
                signal_process(each.pid, signal.SIGUSR2)
                asked.append((pod, each.pid, inside))
    time.sleep(_DUMP_SECONDS)
    found = []
    with folder(engine.observed.folder) as notes:
        names = sorted(os.listdir(notes))
        for pod, pid, inside in asked:
            begins = f"stack-{pod.plan.member.hostname[:63]}-{inside}-"
            for name in [name for name in names if name.startswith(begins)]:
                with suppress(OSError):
                    whole = read(notes, name)
                    if (at := standing(whole)) is not None:
                        rank = variable(pid, RANK) or name.removesuffix(".txt").rpartition("-")[2]
                        found.append(Stack(pod.name, rank, at, whole))
    return tuple(sorted(found, key=lambda stack: (not stack.rank.isdigit(), stack.rank.zfill(6), stack.pod)))


def standing(dump: str) -> str | None:
    """The place of the main thread in what faulthandler wrote."""
    block = dump.rpartition("Current thread")[2]
    frames = [match for match in map(_FRAME.search, block.splitlines()) if match]
    if not frames:
        return None
    inner = frames[0]
    ours = next(
        (frame for frame in frames if "site-packages" not in frame["file"] and "/lib/python" not in frame["file"]), None
    )
    place = f"{Path(inner['file']).name}:{inner['line']} {inner['function']}"
    if ours is None or ours is inner:
        return place
    return f"{Path(ours['file']).name}:{ours['line']} {ours['function']}, in {place}"


def _inside(pid: int) -> str | None:
    """The number that a process has in its own container."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1]
    return None
