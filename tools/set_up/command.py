"""Running the commands of the set-up, and saying what goes on meanwhile."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LOG_LINES = 12
"""How much of a failed command's output is shown."""


class SetUpError(Exception):
    """The set-up cannot go on; `log` is what the failed command printed last."""

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = log


class Progress:
    """Says on stderr what is being done and after how many seconds; on a terminal the clock of the last line runs."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.text = ""

    def step(self, text: str) -> None:
        """Ends the running step and begins the next."""
        self.end()
        self.text = text
        if self.terminal:
            self.tick()
        else:
            self._write(f"{self._line()}\n")

    def tick(self, detail: str = "") -> None:
        """Repaints the line of the running step, with what its command printed last."""
        if not self.terminal:
            return
        line = f"{self._line()}  {detail}".rstrip()
        self._write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")

    def end(self) -> None:
        """Ends the running step, if there is one."""
        if self.terminal and self.text:
            self.tick()
            self._write("\n")
        self.text = ""

    def _line(self) -> str:
        return f"set-up {time.monotonic() - self.start:5.1f} s  {self.text}"

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def run(
    command: Sequence[str | Path],
    progress: Progress,
    *,
    cwd: Path,
    settings: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    keep_open: Sequence[int] = (),
) -> None:
    """Runs a command for the running step, which names it in the SetUpError raised where it fails.

    `settings` are added to the environment and the variables in `without` removed; `keep_open` are file descriptors
    that the command inherits.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {"NO_COLOR": "1", **(settings or {})}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=keep_open,
        )
        try:
            while (code := _status(process)) is None:
                progress.tick(" ".join(_last_lines(log, 1)))
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if code:
            message = f"{progress.text} failed: {Path(command[0]).name} ended with {code}"
            raise SetUpError(message, _last_lines(log, LOG_LINES))


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a process, or None if it still runs after a tenth of a second."""
    try:
        return process.wait(0.1)
    except subprocess.TimeoutExpired:
        return None


def _last_lines(log: IO[bytes], count: int) -> list[str]:
    """The last lines of a file that a process is writing, without control characters."""
    size = os.fstat(log.fileno()).st_size
    tail = os.pread(log.fileno(), 8192, max(0, size - 8192)).decode(errors="replace")
    lines = ("".join(filter(str.isprintable, line)) for line in tail.splitlines())
    return [line for line in lines if line.strip()][-count:]


def output_of(command: Sequence[str | Path], settings: Mapping[str, str] | None = None) -> str:
    """What a program prints on stdout, stripped; nothing where it cannot be run."""
    try:
        done = subprocess.run(
            command,
            cwd="/",
            env={**os.environ, **(settings or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version_in(text: str) -> tuple[int, ...]:
    """The first dotted version in a text: 'go version go1.26.8' gives (1, 26, 8); nothing gives ()."""
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(map(int, found[0].split("."))) if found else ()
