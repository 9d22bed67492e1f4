"""Work on item after item in a process of its own, so that one that asks for too much ends alone.

The process is forked: it starts in a few milliseconds, with all that is loaded. In shared memory it says which item it
is at. The kernel ends it at `limits.JUDGE_SECONDS` of processor time for one item and gives it no more memory than
`limits.JUDGE_BYTES`; for the items that are left another is started.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from struct import Struct
from typing import NoReturn

from trainyard import limits
from trainyard.errors import EXIT_INTERRUPTED, Fault, InputError, UsageError


@dataclass(frozen=True, slots=True)
class ItemEnd:
    """How the process ended that was at an item."""

    at: str
    """What it was doing there, as it said itself; may be empty."""
    why: str
    """What the item asked for, or what became of the process, as the end of a sentence about it."""
    too_much: bool
    """True where a bound was hit; False where the process broke or was killed."""


class Here:
    """Where the process is. It writes this, and whoever started it reads it."""

    def __init__(self) -> None:
        from mmap import mmap

        self._page = mmap(-1, _PAGE)
        self._page[:_NUMBER] = _NOWHERE.to_bytes(_NUMBER, "little")

    def begin(self, item: int, what: str = "") -> None:
        """The process goes on with an item, and has `limits.JUDGE_SECONDS` from here."""
        self._page[:_NUMBER] = item.to_bytes(_NUMBER, "little")
        self.doing(what)
        _hold_seconds()

    def doing(self, what: str) -> None:
        """What it does there, such as the id of a rule."""
        said = what.encode(errors="replace")[: _PAGE - _NUMBER - 1] + b"\0"
        self._page[_NUMBER : _NUMBER + len(said)] = said

    @property
    def place(self) -> tuple[int, str]:
        """The item, and what is done there."""
        said = self._page[_NUMBER:].partition(b"\0")[0]
        return int.from_bytes(self._page[:_NUMBER], "little"), said.decode(errors="replace")


_PAGE = 8192
_NUMBER = 4
_NOWHERE = (1 << 8 * _NUMBER) - 1
"""The item of a process that has not begun with any."""

Work = Callable[[Sequence[int], Here], Generator[tuple[int, bytes], None, None]]
"""Gives an answer for each of some items, in any order, and says where it is before it begins with one."""


def each(count: int, work: Work) -> Iterator[tuple[int, bytes | ItemEnd]]:
    """What `work` answers for the items 0 to `count` - 1, or how the process ended that was at one of them.

    Raises what `work` raises, and Fault where the process ends outside of any item.
    """
    left = dict.fromkeys(range(count))
    while left:
        process = _Process(list(left), work)
        try:
            for item, answer in process.answers():
                del left[item]
                yield item, answer
        finally:
            process.end()
        at, ended = process.place_and_end()
        if ended is None:
            assert not left, "work answers for every item"
        elif at not in left:
            raise Fault(f"the process that judges {ended.why}")
        else:
            del left[at]
            yield at, ended


def call(what: str, work: Callable[[], bytes]) -> bytes:
    """One answer. InputError, about `what`, where it hits a bound; Fault where the process breaks."""

    def only(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        here.begin(items[0])
        yield items[0], work()

    ((_, answer),) = each(1, only)
    if isinstance(answer, ItemEnd):
        raise InputError(answer.why, what) if answer.too_much else Fault(f"{what} {answer.why}")
    return answer


_HEAD = Struct("<iI")
"""Before each answer: its item, and its length in bytes."""
_RAISED = -1
"""In the place of an item: the answer is what `work` raised."""
_CHUNK = 1 << 20
_EXIT_MEMORY = 4
_PATIENCE = 5.0
"""Seconds in which a process that is told to end may end what it started."""


def _largest(used: resource.struct_rusage) -> int:
    """Bytes of memory that a process held at most."""
    return used.ru_maxrss if sys.platform == "darwin" else used.ru_maxrss << 10


class _Process:
    """A forked process, which answers through a pipe."""

    def __init__(self, items: Sequence[int], work: Work) -> None:
        self.here = Here()
        self.is_silent = False
        self.is_done = False
        self.code: int | None = None
        self.before = _largest(resource.getrusage(resource.RUSAGE_SELF))
        self.grown = 0
        """Bytes of memory that it held at most beyond what this process has, known once it has ended."""
        self.output, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(items, work, self.here, answers)
        os.close(answers)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """What it answers until it ends. Raises what it raised."""
        from select import select

        parts = bytearray()
        while True:
            if not select([self.output], [], [], limits.JUDGE_SILENCE)[0]:
                self.is_silent = True
                return
            chunk = os.read(self.output, _CHUNK)
            if not chunk:
                self.is_done = True
                return
            parts += chunk
            start = 0
            while len(parts) - start >= _HEAD.size:
                item, length = _HEAD.unpack_from(parts, start)
                end = start + _HEAD.size + length
                if end > len(parts):
                    break
                answer = bytes(parts[start + _HEAD.size : end])
                start = end
                if item == _RAISED:
                    raise _raised(answer)
                yield item, answer
            del parts[:start]

    def end(self) -> None:
        """End it and what it started, unless it has ended by itself."""
        os.close(self.output)
        if not self.is_done:
            os.kill(self.pid, signal.SIGTERM)
            until = time.monotonic() + _PATIENCE
            while not self._has_ended(os.WNOHANG) and time.monotonic() < until:
                time.sleep(0.01)
            if self.code is None:
                os.kill(self.pid, signal.SIGKILL)
        if self.code is None:
            self._has_ended(0)

    def _has_ended(self, flags: int) -> bool:
        pid, status, used = os.wait4(self.pid, flags)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
            self.grown = _largest(used) - self.before
        return bool(pid)

    def place_and_end(self) -> tuple[int, ItemEnd | None]:
        """Where it was, and how it ended; None where it had done its work."""
        item, at = self.here.place
        if self.is_silent:
            return item, ItemEnd(at, f"takes longer than {limits.JUDGE_SILENCE} s to judge", too_much=True)
        if self.code == -signal.SIGXCPU:
            why = f"takes longer than {limits.JUDGE_SECONDS} s of processor time to judge"
            return item, ItemEnd(at, why, too_much=True)
        killed = self.code is not None and self.code < 0
        if self.code == _EXIT_MEMORY or (killed and self.grown > limits.JUDGE_BYTES // 2):
            return item, ItemEnd(
                at, f"needs more than {limits.JUDGE_BYTES >> 20} MiB of memory to judge", too_much=True
            )
        if self.code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if self.code:
            how = f"signal {-self.code}" if killed else f"exit code {self.code}"
            return item, ItemEnd(at, f"stopped the process that judges it ({how})", too_much=False)
        return item, None


def _run(items: Sequence[int], work: Work, here: Here, answers: int) -> NoReturn:
    """The life of the forked process."""
    from trainyard.commandline import TRACEBACK

    code = 0
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        _hold()
        if not os.environ.get(TRACEBACK):  # a library that finds no memory says so there before it aborts
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with closing(work(items, here)) as made:
            for item, answer in made:
                _send(answers, item, answer)
    except MemoryError:
        code = _EXIT_MEMORY
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_INTERRUPTED  # nobody waits for it
    except BaseException as error:
        if os.environ.get(TRACEBACK):
            import traceback

            traceback.print_exc()
        _send(answers, _RAISED, json.dumps(_words(error)).encode())
    finally:
        os._exit(code)


def _send(answers: int, item: int, answer: bytes) -> None:
    data = memoryview(_HEAD.pack(item, len(answer)) + answer)
    while data:
        data = data[os.write(answers, data) :]


_TYPES = {each.__name__: each for each in (Fault, InputError, UsageError)}


def _words(error: BaseException) -> list[str | int]:
    """The type of an error, and what it is made of."""
    if isinstance(error, InputError):
        return ["InputError", error.message, error.file, error.line, error.column, error.help]
    if isinstance(error, Fault | UsageError):
        return [type(error).__name__, str(error)]
    return ["Fault", f"{type(error).__name__}: {error}"]


def _raised(answer: bytes) -> Exception:
    name, *words = json.loads(answer)
    return _TYPES[name](*words)


_held: dict[int, tuple[int, int]] = {}
"""The limits of this process that were made lower, and how they were."""


def _hold() -> None:
    """Bound the memory of this process; `Here.begin` bounds its time."""
    _lower(resource.RLIMIT_CORE, 0)  # the kernel leaves a dump of what it ends for its time
    _held[resource.RLIMIT_CPU] = resource.getrlimit(resource.RLIMIT_CPU)
    with suppress(OSError):  # without /proc, the memory of a process is not known, and seldom bounded by the kernel
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[0])
        _held[resource.RLIMIT_AS] = resource.getrlimit(resource.RLIMIT_AS)
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + limits.JUDGE_BYTES)


def _hold_seconds() -> None:
    if _held:
        _lower(resource.RLIMIT_CPU, int(time.process_time()) + 1 + limits.JUDGE_SECONDS)


def _lower(limit: int, to: int) -> None:
    _, most = resource.getrlimit(limit)
    resource.setrlimit(limit, (to if most == resource.RLIM_INFINITY else min(to, most), most))


@contextmanager
def unbounded() -> Iterator[None]:
    """A program that is started in here has the limits of whoever runs the toolkit: it bounds itself."""
    if not _held:
        yield
        return
    now = {limit: resource.getrlimit(limit) for limit in _held}
    for limit, before in _held.items():
        resource.setrlimit(limit, before)
    try:
        yield
    finally:
        for limit, low in now.items():
            resource.setrlimit(limit, low)
