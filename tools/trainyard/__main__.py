"""`python -m trainyard` is lint-jobs."""

import signal
import sys
from types import FrameType


def _stop(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(128 + number)


try:
    signal.signal(signal.SIGTERM, _stop)
    from trainyard.cli import main

    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
