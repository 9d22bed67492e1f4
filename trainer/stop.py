"""SIGTERM, which asks for an end, and what is done about it: one rank is told, and all of them stop at one step."""

import signal
import threading
import time
from types import FrameType
from typing import Any


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

    def close(self) -> None:
        """Gives the signal back to who had it."""
        if self.main:
            signal.signal(signal.SIGTERM, self.before)
