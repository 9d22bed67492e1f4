"""What a run says: one moving line on a terminal, JSON lines elsewhere, and messages on standard error."""

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any


class Report:
    """Rank 0's voice; the other ranks have none."""

    def __init__(self, speaks: bool) -> None:
        self.speaks = speaks
        # Open MPI gives every rank a terminal, and reads it itself
        self.terminal = sys.stdout.isatty() and "OMPI_COMM_WORLD_SIZE" not in os.environ

    def say(self, text: str) -> None:
        """One line for people."""
        if self.speaks:
            sys.stderr.write(f"{chr(13) + chr(27) + '[K' if self.terminal else ''}{text}\n")
            sys.stderr.flush()

    def progress(self, values: Mapping[str, Any], steps: int) -> None:
        """One step's numbers."""
        if not self.speaks:
            return
        if not self.terminal:
            self._line({name: _plain(value) for name, value in values.items()})
            return
        speed = next(
            (f"{values[name]:,.0f} {name.replace('_per_second', '/s')}" for name in values if "per_second" in name), ""
        )
        rate = f"loss {values['loss']:.4f}  lr {values['learning_rate']:.2e}  {speed}"
        sys.stdout.write(f"\r\x1b[Kstep {values['step']}/{steps}  {rate}  {values['step_seconds'] * 1e3:.0f} ms")
        sys.stdout.flush()

    def result(self, values: Mapping[str, Any]) -> None:
        """The last line."""
        if self.speaks:
            if self.terminal:
                sys.stdout.write("\n")
            self._line(values)

    @staticmethod
    def _line(values: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else str(value)
    return value
