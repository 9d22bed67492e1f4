"""Exposed communication: the part of a step in which collectives run and nothing is computed, from a profiled step."""

from collections.abc import Iterable

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

COLLECTIVES = ("nccl", "gloo:")
COPIES = ("Memcpy", "Memset")
Span = tuple[float, float]


class Exposed:
    """A profiler around one step, where that step is to be measured."""

    def __init__(self, device: torch.device, every_steps: int) -> None:
        self.device, self.every_steps = device, every_steps
        self.profiler: profile | None = None

    def start(self, step: int) -> None:
        """Starts measuring if the step is one to be measured."""
        if not self.every_steps or step % self.every_steps:
            return
        activities = [ProfilerActivity.CUDA] if self.device.type == "cuda" else [ProfilerActivity.CPU]
        self.profiler = profile(activities=activities)
        self.profiler.start()

    def stop(self) -> float | None:
        """Seconds of exposed communication in the step, if it was measured."""
        if self.profiler is None:
            return None
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.profiler.stop()
        events = self.profiler.events() or []
        self.profiler = None
        return exposed_seconds(events, on_gpu=self.device.type == "cuda")


def exposed_seconds(events: Iterable[FunctionEvent], on_gpu: bool) -> float:
    """Seconds of collectives beside which nothing is computed, from the profiler's events of a step.

    On a GPU only kernels count. The profiler also gives what the host calls, whose waiting spans whole collectives,
    ranges that carry the collectives' names, and copies, in which nothing is computed. On CPUs operators compute.
    """
    spans: dict[bool, list[Span]] = {True: [], False: []}
    for event in events:
        collective = event.name.startswith(COLLECTIVES)
        if on_gpu:
            kernel = event.device_type == DeviceType.CUDA and not event.is_user_annotation
            counts = kernel and not event.name.startswith(COPIES)
        else:
            counts = collective or event.name.startswith("aten::")
        if counts:
            spans[collective].append((event.time_range.start, event.time_range.end))
    return uncovered(spans[True], spans[False]) / 1e6


def uncovered(spans: list[Span], by: list[Span]) -> float:
    """Length of the union of `spans` outside the union of `by`."""
    return _length(spans + by) - _length(by)


def _length(spans: list[Span]) -> float:
    """Length of a union."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total
