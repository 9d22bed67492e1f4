"""SIGTERM, which asks for an end, and what is done about it: one rank is told, and all of them stop at one step."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

TORCHRUN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
TORCHRUN_SECONDS = "30"
"""What torchrun gives its ranks between SIGTERM and SIGKILL, and what it gives where nothing else is said."""


class Stop:
    """Whether this process was asked to end, and since when. Signals reach main threads alone: in another, as under
    Ray, it is never asked."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.main = threading.current_thread() is threading.main_thread()
        self.before: Any = signal.signal(signal.SIGTERM, self._asked) if self.main else None

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        self.since = self.since or time.monotonic()

    @property
    def asked(self) -> bool:
        return self.since is not None

    def used(self, grace_seconds: float) -> tuple[float, float]:
        """Seconds since it was asked, and the seconds that it has: `grace_seconds`, or torchrun's where that is 0."""
        grace = grace_seconds or float(os.environ.get(TORCHRUN, TORCHRUN_SECONDS))
        return (time.monotonic() - self.since if self.since else 0.0), grace

    def close(self) -> None:
        """Gives the signal back to who had it."""
        if self.main:
            signal.signal(signal.SIGTERM, self.before)
