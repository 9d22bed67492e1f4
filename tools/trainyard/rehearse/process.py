"""A container's process: started, told to end, killed, and its output read line by line."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CHUNK = 1 << 16
_MOST_CHUNKS = 16
_LONGEST_LINE = 1 << 14
_ENDS = re.compile(rb"(\r?\n|\r)")


@dataclass(slots=True)
class Process:
    """One run of a container."""

    popen: "subprocess.Popen[bytes]"
    output: IO[bytes]
    status: int
    """Descriptor on which the sandbox tells the process and its exit code."""
    rest: bytes = b""
    told: str = ""
    pid: int | None = None
    """The container's first process, as this machine numbers it."""
    code: int | None = None
    killed: bool = False
    """Whether its grace ran out."""

    def fileno(self) -> int:
        """Descriptor of its output."""
        return self.output.fileno()

    def lines(self) -> Iterator[str]:
        """Lines that it has printed since the last call; one that the next is to take the place of ends in \\r.

        It prints faster than anybody reads, perhaps: what is more than a few chunks waits for the next call.
        """
        for _ in range(_MOST_CHUNKS):
            try:
                chunk = os.read(self.output.fileno(), _CHUNK)
            except (BlockingIOError, ValueError):
                return
            if not chunk:
                if self.rest:
                    yield self.rest.decode(errors="replace")
                    self.rest = b""
                return
            *whole, self.rest = _ENDS.split(self.rest + chunk)
            if len(self.rest) > _LONGEST_LINE:
                whole, self.rest = [*whole, self.rest, b"\n"], b""
            for text, end in zip(whole[::2], whole[1::2], strict=True):
                if end != b"\r":
                    yield text.decode(errors="replace")
                elif text.strip():
                    yield f"{text.decode(errors='replace')}\r"

    def poll(self) -> int | None:
        """The exit code, 128 and the signal's number for one; None while it runs."""
        self._hear()
        if self.code is None and (code := self.popen.poll()) is not None:
            self._hear()
            self.code = 128 - code if code < 0 else code
        return self.code

    def signal(self, number: int) -> None:
        """Send a signal to the container's first process, as the kubelet does."""
        self._hear()
        with suppress(ProcessLookupError):
            if self.pid is not None:
                os.kill(self.pid, number)
            elif number == signal.SIGKILL:
                self.popen.kill()

    def kill(self) -> None:
        """End it and all that it started."""
        if self.popen.poll() is None:
            self.signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill it, wait for it, and let go of what it was read through."""
        self.kill()
        try:
            self.popen.wait(2)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.output.close()
        os.close(self.status)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            self.told += os.read(self.status, _CHUNK).decode()
        *whole, self.told = self.told.split("\n")
        for line in whole:
            with suppress(ValueError):
                self.pid = json.loads(line).get("child-pid", self.pid)


def start(command: Sequence[str], status: tuple[int, int], inherits: Sequence[int] = ()) -> Process:
    """Start a command that tells its state on the second descriptor of `status`, a pipe."""
    reading, writing = status
    popen = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(writing, *inherits),
        start_new_session=True,
    )
    os.close(writing)
    os.set_blocking(reading, False)
    assert popen.stdout is not None
    os.set_blocking(popen.stdout.fileno(), False)
    return Process(popen, popen.stdout, reading)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of a container as /proc shows it."""

    pid: int
    parent: int
    seconds: float
    """Processor time that it has used, or has waited for."""
    memory: int
    """Bytes that are its own alone."""


def below(roots: Sequence[int]) -> dict[int, list[ProcessInfo]]:
    """All processes under each of some processes, themselves included."""
    every = {each.pid: each for each in _every()}
    children: dict[int, list[ProcessInfo]] = {}
    for each in every.values():
        children.setdefault(each.parent, []).append(each)
    found: dict[int, list[ProcessInfo]] = {}
    for root in roots:
        waiting = [every[root]] if root in every else []
        found[root] = []
        while waiting:
            each = waiting.pop()
            found[root].append(each)
            waiting += children.get(each.pid, [])
    return found


def _every() -> Iterator[ProcessInfo]:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            spent = sum(int(fields[index]) for index in (11, 12, 13, 14))
            _, resident, shared, *_ = map(int, Path(f"/proc/{entry}/statm").read_text().split())
            yield ProcessInfo(
                int(entry), int(fields[1]), spent / ticks + _waited(entry), max(0, resident - shared) * page
            )


def _waited(process: str) -> float:
    """Seconds that a process has waited for a processor; 0 where the kernel does not count them."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, and so survives it."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def variable(pid: int, names: Sequence[str]) -> str | None:
    """The first of some variables that a process was started with."""
    with suppress(OSError):
        found = dict(
            item.split("=", 1)
            for item in Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            if "=" in item
        )
        return next((found[name] for name in names if name in found), None)
    return None


def signal_process(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
