"""How fast each rank is on its own: a product that is the same on all, timed apart from every collective.

A step takes all ranks the same time, for they wait for each other; the one that is waited for shows here alone.
"""

import statistics
import time

import torch

SIZE = {"cuda": 4096, "cpu": 192}
TIMES = 5


class Probe:
    """The product of one rank."""

    def __init__(self, device: torch.device) -> None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        size = SIZE[device.type]
        self.device = device
        self.left, self.right = (torch.ones(size, size, device=device, dtype=dtype) for _ in range(2))

    @torch.no_grad()
    def seconds(self) -> float:
        """The median time of a product."""
        times = []
        for _ in range(TIMES):
            self._wait()
            start = time.perf_counter()
            torch.mm(self.left, self.right)
            self._wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def spread(seconds: list[float]) -> tuple[float, int]:
    """The slowest over the median, and which rank it is."""
    slowest = max(seconds)
    return slowest / max(statistics.median(seconds), 1e-9), seconds.index(slowest)
