"""A disk of a given speed: holds the writes of pods onto a claim back, for as long as it would take them."""

import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from trainyard.errors import Fault
from trainyard.rehearse.disk.calls import REQUEST, SystemCall

QUIET_SECONDS = 1.0
"""Writes into a folder that are further apart belong to two saves."""
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_REPLY = struct.Struct("=QqiI")
_GO_ON = 1
_HANDOVER = (sys.executable, "-I", "-m", "trainyard.rehearse.disk.handover")


@dataclass(frozen=True, slots=True)
class Place:
    """A mount of a container."""

    path: str
    claim: str
    """The claim that is mounted there; empty for anything else."""


@dataclass(frozen=True, slots=True)
class Source:
    """A container whose writes are seen."""

    pod: str
    places: tuple[Place, ...]

    def claim_at(self, path: str) -> str:
        """The claim that a path of the container lies on, or nothing."""
        found = [each for each in self.places if path == each.path or path.startswith(f"{each.path.rstrip('/')}/")]
        return max(found, key=lambda each: len(each.path)).claim if found else ""


@dataclass(slots=True)
class Save:
    """Writes into one folder of a claim, with no pause between them."""

    claim: str
    folder: str
    began: float
    ended: float
    size: int = 0
    """Bytes."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """What a pod was still writing."""

    claim: str
    rate: float
    """Bytes a second."""
    written: float
    """Bytes of the save that the disk had taken."""
    seconds: float
    """Since the save began."""


@dataclass(slots=True)
class _Disk:
    rate: float | None = None
    """Bytes a second; None as fast as it is."""
    free_at: float = 0.0


@dataclass(order=True, slots=True)
class _Waiting:
    due: float
    listener: int
    notice: int
    pod: str = field(compare=False)
    save: Save = field(compare=False)
    size: int = field(compare=False)


def size(count: float) -> str:
    """A number of bytes for people."""
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


class SlowDisks:
    """The claims that may be slow, and one thread that answers for all of them.

    A write waits until the disk has taken all bytes before it and its own: so an fsync finds nothing to wait for. What
    is written through a mapping of memory is not seen.
    """

    def __init__(self, claims: Sequence[str]) -> None:
        """Fault where this kernel does not let a process answer for others."""
        _try_it()
        self._disks = {claim: _Disk() for claim in claims}
        self._saves: list[Save] = []
        self._waiting: list[_Waiting] = []
        self._changing = threading.Lock()
        self._arriving: deque[tuple[socket.socket, Source]] = deque()
        self._sockets: dict[int, tuple[socket.socket, Source]] = {}
        self._listeners: dict[int, Source] = {}
        self._epoll = select.epoll()
        self._heard, self._call = os.pipe()
        self._epoll.register(self._heard, select.EPOLLIN)
        self._over = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="slow disks", daemon=True)
        self._thread.start()

    def slow(self, claim: str, rate: float) -> None:
        """From now on a claim takes so many bytes a second."""
        with self._changing:
            self._disks[claim].rate = rate

    def hand_over(self, source: Source) -> tuple[list[str], socket.socket | None]:
        """What to put before a container's command, and the socket that it inherits; nothing where it has no claim."""
        if not any(place.claim in self._disks for place in source.places):
            return [], None
        ours, theirs = socket.socketpair()
        self._arriving.append((ours, source))
        os.write(self._call, b".")
        return [*_HANDOVER, str(theirs.fileno())], theirs

    @property
    def busy(self) -> bool:
        """Whether some write waits. Fault where nobody answers any more."""
        if self._fault is not None:
            raise Fault(f"slow disks: {self._fault}")
        return bool(self._waiting)

    def held(self, pod: str) -> PendingWrite | None:
        """The save that a pod is at, if it waits for its disk."""
        with self._changing:
            mine = next((each for each in self._waiting if each.pod == pod), None)
            if mine is None:
                return None
            now, rate = time.monotonic(), self._disks[mine.save.claim].rate or 0.0
            left = max(0.0, mine.save.ended - now) * rate
            return PendingWrite(mine.save.claim, rate, max(0.0, mine.save.size - left), now - mine.save.began)

    def saves(self) -> tuple[Save, ...]:
        """Saves onto claims since they were slow, in their order."""
        with self._changing:
            return tuple(self._saves)

    def close(self) -> None:
        """Let all go. Call it when no pod runs any more: a write that asks nobody fails."""
        self._over = True
        os.write(self._call, b".")
        self._thread.join()
        for ours, _ in (*self._arriving, *self._sockets.values()):
            ours.close()
        self._epoll.close()
        os.close(self._heard)
        os.close(self._call)

    def _serve(self) -> None:
        try:
            while not self._over:
                self._answer_all()
        except Exception as error:  # whoever waits must not wait for ever
            self._fault = error
        for listener in list(self._listeners):
            self._forget(listener)

    def _answer_all(self) -> None:
        due = self._waiting[0].due if self._waiting else None
        for number, events in self._epoll.poll(None if due is None else max(0.0, due - time.monotonic())):
            if number == self._heard:
                os.read(self._heard, 1 << 10)
            elif number in self._sockets:
                self._take_over(number)
            elif events & select.EPOLLIN:
                self._hear(number)
            else:
                self._forget(number)
        while self._arriving:
            ours, source = self._arriving.popleft()
            self._sockets[ours.fileno()] = ours, source
            self._epoll.register(ours, select.EPOLLIN)
        self._let_go()

    def _take_over(self, number: int) -> None:
        """The filter's descriptor, from a container that has put one over itself."""
        ours, source = self._sockets.pop(number)
        self._epoll.unregister(ours)
        with ours, suppress(OSError):
            for listener in socket.recv_fds(ours, 1, 1)[1]:
                self._listeners[listener] = source
                self._epoll.register(listener, select.EPOLLIN)

    def _forget(self, listener: int) -> None:
        """Nobody is left under this filter."""
        del self._listeners[listener]
        self._epoll.unregister(listener)
        os.close(listener)
        with self._changing:
            now, gone = time.monotonic(), [each for each in self._waiting if each.listener == listener]
            self._waiting = [each for each in self._waiting if each.listener != listener]
            heapq.heapify(self._waiting)
            for each in gone:
                each.save.size -= each.size
                each.save.ended = now
                due = (held.due for held in self._waiting if held.save.claim == each.save.claim)
                self._disks[each.save.claim].free_at = max(due, default=now)

    def _hear(self, listener: int) -> None:
        raw = bytearray(REQUEST.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, raw)
        except FileNotFoundError:  # killed before it was heard
            return
        asked, source = SystemCall.of(bytes(raw)), self._listeners[listener]
        path = asked.path()
        claim = source.claim_at(path) if path else ""
        with self._changing:
            disk = self._disks.get(claim)
            rate = disk.rate if disk is not None else None
            if disk is None or rate is None:
                _answer(listener, asked.notice)
                return
            now, size = time.monotonic(), asked.size()
            disk.free_at = max(now, disk.free_at) + size / rate
            save = self._save(claim, os.path.dirname(path), now)
            save.size += size
            save.ended = disk.free_at
            heapq.heappush(self._waiting, _Waiting(disk.free_at, listener, asked.notice, source.pod, save, size))

    def _save(self, claim: str, folder: str, now: float) -> Save:
        for each in reversed(self._saves):
            if (each.claim, each.folder) == (claim, folder) and now - each.ended < QUIET_SECONDS:
                return each
        self._saves.append(Save(claim, folder, now, now))
        return self._saves[-1]

    def _let_go(self) -> None:
        with self._changing:
            while self._waiting and self._waiting[0].due <= time.monotonic():
                each = heapq.heappop(self._waiting)
                _answer(each.listener, each.notice)


def _answer(listener: int, notice: int) -> None:
    """Let a call go on; one whose thread was killed is gone."""
    with suppress(FileNotFoundError):
        fcntl.ioctl(listener, _ANSWER, _REPLY.pack(notice, 0, 0, _GO_ON))


def _try_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [*_HANDOVER, str(theirs.fileno())]
        done = subprocess.run(command, pass_fds=(theirs.fileno(),), capture_output=True, text=True, check=False)
        theirs.close()
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise Fault(f"--chaos slow-disk: this machine lets no process answer for another's writes: {reason}")
