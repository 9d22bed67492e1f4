"""SIGTERM, which asks for an end, and what is done about it: one rank is told, and all of them stop at one step."""

import signal
import time
from types import FrameType


class Stop:
    """Whether this process was asked to end, and since when."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.before = signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        self.since = self.since or time.monotonic()

    @property
    def asked(self) -> bool:
        return self.since is not None

    def close(self) -> None:
        """Gives the signal back to who had it."""
        signal.signal(signal.SIGTERM, self.before)
