"""python -m tests.trainer.altered HOW ARGUMENT...: the trainer with a mistake, or with somebody looking on.

untied   embedding and head are not made one
slow     storage takes the first save only once it was told to be late, an hour by the trainer's clock
memory   standard error says how many bytes a resume adds to the process at its most, and which collectives a save calls
waits    standard error says where the host waited for a number in each step
gathers  standard error says how many numbers were gathered in each step
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trainer import checkpoint, loop
from trainer.__main__ import main
from trainer.transformer import Transformer


def untied() -> None:
    Transformer.tie = lambda _: None  # type: ignore[method-assign,assignment]


def slow() -> None:
    begin, write = checkpoint.Saver.begin, checkpoint.Saver._write

    def an_hour_ago(self: checkpoint.Saver, *arguments: Any) -> None:
        begin(self, *arguments)
        self.started -= 3600 if self.newest is None else 0

    def waiting(self: checkpoint.Saver, *arguments: Any) -> None:
        while self.newest is None and not self.late:
            time.sleep(0.001)
        write(self, *arguments)

    checkpoint.Saver.begin = an_hour_ago  # type: ignore[method-assign,assignment]
    checkpoint.Saver._write = waiting  # type: ignore[method-assign,assignment]


class Collectives(TorchDispatchMode):
    """Names the collectives that this thread calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []
        self.gathered = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.called.append(str(func))
            self.gathered += args[0].numel() if "_allgather_base_" in str(func) else 0
        return func(*args, **(kwargs or {}))


def memory() -> None:
    resume, begin = checkpoint.resume, loop.Training._begin

    def measured(*arguments: Any) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is the present size from here on
        before = _kilobytes("VmRSS")
        found = resume(*arguments)
        say("added", (_kilobytes("VmHWM") - before) * 1024)
        return found

    def listened(self: loop.Training) -> None:
        with Collectives() as heard:
            begin(self)
        say("called", heard.called)

    checkpoint.resume = measured  # type: ignore[assignment]
    loop.Training._begin = listened  # type: ignore[method-assign]


def _kilobytes(name: str) -> int:
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(f"{name}:"))


WAITING = {"tolist", "item", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__"}
"""Methods of a tensor that need its numbers on the host."""


class Asked(TorchFunctionMode):
    """Counts where Python asks a tensor for its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in WAITING:
            self.times.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Scalars(TorchDispatchMode):
    """Counts where C++ reads a number."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default):
            self.times.append(str(func))
        return func(*args, **(kwargs or {}))


def waits() -> None:
    step = loop.Training._step

    def watched(self: loop.Training, batches: Any) -> None:
        with Asked() as asked, Scalars() as scalars:
            step(self, batches)
        say("waits", max(asked.times, scalars.times, key=len))

    loop.Training._step = watched  # type: ignore[method-assign]


def gathers() -> None:
    passes = loop.Training._passes

    def listened(self: loop.Training, batches: Any) -> Any:
        with Collectives() as heard:
            found = passes(self, batches)
        say("gathered", heard.gathered)
        return found

    loop.Training._passes = listened  # type: ignore[method-assign]


def say(what: str, value: object) -> None:
    sys.stderr.write(json.dumps({what: value, "rank": int(os.environ["RANK"])}) + "\n")


if __name__ == "__main__":
    {"untied": untied, "slow": slow, "memory": memory, "waits": waits, "gathers": gathers}[sys.argv[1]]()
    code = main(sys.argv[2:])
    sys.stderr.flush()
    os._exit(code)
