"""Watches the pytest process that starts it: `python tests/watcher.py BYTES`, told on stdin which test begins.

It ends that process once it holds more than so many bytes, and names the test of one that ended before its test did,
whoever ended it: the kernel, for want of memory, says so to nobody.
"""

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_OFTEN = 0.2


def main(most: int) -> None:
    """Watch until that process says null, or ends. Each line is JSON: the test that begins, empty where one ended.

    Memory is a test's if nothing was said since before it was measured: another test may be far on by now.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    watched, running, held = os.getppid(), "", 0
    for line in _lines(watched):
        if line:
            running, held = json.loads(line), 0
        if running is None:
            return
        before, held = held, _memory(watched)
        if running and not line and before > most:
            _say(f"{running} needs more than {most >> 20} MiB of memory: its process is ended")
            with contextlib.suppress(ProcessLookupError):
                os.kill(watched, signal.SIGKILL)
            return
    if running:
        _say(f"{running} was running when its process ended")


def _lines(watched: int) -> Iterator[bytes]:
    """What the process says, and an empty line now and then. What it started may hold its end of the pipe open."""
    held = b""
    while True:
        is_there = os.getppid() == watched
        if select.select([0], [], [], _OFTEN)[0]:
            found = os.read(0, 1 << 16)
            if not found:
                return
            *lines, held = (held + found).split(b"\n")
            yield from lines
        elif is_there:
            yield b""
        else:
            return


def _memory(process: int) -> int:
    """Bytes that a process holds; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{process}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _say(what: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"\ntools/test: {what}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
