"""The logs of all pods: merged with a colour for each, or a file each."""

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from trainyard.errors import UsageError
from trainyard.report.escape import visible

_COLORS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_OWN = "1"
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 200
_LARGEST_LOG = 64 << 20
_BAR_SECONDS = 2.0


@dataclass(slots=True)
class Voices:
    """Where lines of pods go."""

    out: TextIO
    color: bool
    quiet: bool = False
    folder: Path | None = None
    files: dict[tuple[str, str], TextIO] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    written: dict[tuple[str, str], int] = field(default_factory=dict)
    """Characters of each container."""
    bar_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a progress bar was shown."""

    def __post_init__(self) -> None:
        """Make the folder. UsageError where it cannot be."""
        try:
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or "unknown").lower()
            raise UsageError(f"--logs {self.folder}: cannot be made: {reason}") from None

    def line(self, pod: str, container: str, text: str) -> None:
        """One line; without a pod it is the rehearsal's own.

        Of one that ends in \\r, as those of a progress bar do, only some are shown.
        """
        if pod and not self._is_shown((pod, container), text):
            return
        text = text.removesuffix("\r")
        if pod and self.folder is not None:
            self._file(pod, container).write(f"{text}\n")
            return
        if self.quiet:
            return
        name = pod or "rehearsal"
        text = visible(text)
        if self.color:
            number = self.numbers.setdefault(name, len(self.numbers))
            code = _OWN if not pod else str(_COLORS[number % len(_COLORS)])
            name = f"\x1b[{code}m{name}\x1b[0m"
        try:
            self.out.write(f"{name} | {text}\n")
            self.out.flush()
        except OSError:  # nobody reads on, or the disk is full: the job goes on, and its verdict comes
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())

    def _is_shown(self, of: tuple[str, str], text: str) -> bool:
        if text.endswith("\r"):
            if time.monotonic() - self.bar_at.get(of, 0.0) < _BAR_SECONDS:
                return False
            self.bar_at[of] = time.monotonic()
        before = self.written.get(of, 0)
        self.written[of] = before + len(text) + 1
        if before <= _LARGEST_LOG < self.written[of]:
            self.line(
                "", "", f"no more of what {' '.join(filter(None, of))} prints is shown: it is {_LARGEST_LOG >> 20} MiB"
            )
        return self.written[of] <= _LARGEST_LOG

    def close(self) -> None:
        """Close the files."""
        for file in self.files.values():
            file.close()

    def _file(self, pod: str, container: str) -> TextIO:
        key = pod, container
        if key not in self.files:
            assert self.folder is not None
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            file = self.folder / f"{_ODD.sub('_', f'{pod}.{container}')[-_LONGEST:]}.log"
            try:
                self.files[key] = open(os.open(file, flags, 0o666), "w")  # noqa: SIM115
            except OSError as error:
                raise UsageError(f"--logs: {file} cannot be written: {(error.strerror or 'unknown').lower()}") from None
        return self.files[key]
