"""When to save: every so many steps, or so often that saving and repeating lost work cost least together."""

import math
import time

ASSUMED_SECONDS = 30.0
"""What a save is taken to cost until the first one was measured."""


def daly_seconds(cost: float, mtbf: float) -> float:
    """Best time between two saves that each stop training for `cost` seconds, at a mean time between failures
    (Daly 2006, equation 37; its first term is Young's)."""
    if cost >= 2 * mtbf:
        return mtbf
    ratio = cost / (2 * mtbf)
    return math.sqrt(2 * cost * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


class Cadence:
    """Says at the end of a step whether it is to be saved. One rank asks, and tells the others."""

    def __init__(self, every_steps: int, mtbf_hours: float) -> None:
        self.every_steps, self.mtbf = every_steps, mtbf_hours * 3600
        self.cost, self.written = ASSUMED_SECONDS, 0.0
        self.last = time.monotonic()

    def due(self, step: int) -> bool:
        if self.every_steps:
            return step % self.every_steps == 0
        return time.monotonic() - self.last >= self.seconds

    @property
    def seconds(self) -> float:
        """Time between two saves; a save ends before the next begins."""
        return max(daly_seconds(self.cost, self.mtbf), 2 * self.written)

    def begun(self, cost: float) -> None:
        """A save began, and stopped training for `cost` seconds."""
        self.cost, self.last = max(cost, 0.001), time.monotonic()

    def ended(self) -> None:
        """The save that began last is on storage."""
        self.written = time.monotonic() - self.last
