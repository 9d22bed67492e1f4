"""Renders folders as `kustomize build` does: a few long-lived processes of the Go program in tools/go/render."""

import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trainyard import limits
from trainyard.bounded import unbounded
from trainyard.cache import is_content
from trainyard.errors import Fault
from trainyard.home import BUILT

if TYPE_CHECKING:
    import selectors
    import subprocess

PROGRAM = BUILT / "bin" / "render"


@dataclass(frozen=True, slots=True)
class Rendering:
    """What one folder renders to, or why it does not."""

    folder: str
    objects: list[dict[str, Any]] = field(repr=False)
    """In the order that kustomize prints; empty where there is an error."""
    reads: Mapping[str, str] = field(repr=False)
    """All that the result depends on: a path relative to the root, and its file's SHA-256 in hex, `folder`, `absent`,
    or `link:` and where the link points. Whole only where there is no error."""
    error: str
    """One readable line; empty if there is none."""
    yaml: str = field(default="", repr=False)
    """What `kustomize build` prints, where that was asked for."""
    error_file: str = ""
    """The file that the error is in, relative to the root; empty where that is not known."""
    error_line: int = 0
    """Line in that file, from 1; 0 where it is not known."""
    error_text: str = ""
    """What stands in that file and is wrong, such as a path; empty where it is not known."""
    broke: bool = False
    """True where there is an error because the renderer broke, which no input should make it do."""


def render(
    root: Path,
    folders: Iterable[str],
    *,
    workers: int | None = None,
    with_yaml: bool = False,
    program: Path = PROGRAM,
    arrived: Callable[[], None] = lambda: None,
    unsaved: Mapping[str, str] | None = None,
) -> Iterator[Rendering]:
    """Render each folder, given relative to `root`, and yield the results in that order while the rest goes on.

    Folders are taken as the processes come to them, so whoever names them may still be at work on the next.

    `unsaved` are texts that stand for those of files that are there, by path without symlinks.
    `arrived` is called when the next answer is there, before it is read. At most one process a core, or `workers`,
    runs; all end with the iterator. A folder that is wrong, slow or large
    gets a Rendering with an error. Fault if the program is missing or does not do as it should.
    """
    if not program.is_file():
        raise Fault(f"{program} is missing: run tools/lint-jobs, which builds it")
    if not root.is_dir():
        raise Fault(f"{root} is not a folder to render in")
    return _render(_Command(program, root, with_yaml, unsaved or {}), iter(folders), workers or _cores(), arrived)


def render_one(root: Path, folder: str) -> Rendering:
    """Render one folder, given relative to `root`. Fault, too, where the renderer broke."""
    (rendering,) = render(root, [folder], workers=1)
    if rendering.broke:
        raise Fault(f"{folder} {rendering.error}")
    return rendering


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_AHEAD = 4
"""Folders that one process is given before it has answered: it never waits for the next name."""

_BUFFERED = 16
"""Answers a process that may wait for an earlier one, so that memory stays bounded."""


def _render(
    command: "_Command", folders: Iterator[str], workers: int, arrived: Callable[[], None]
) -> Iterator[Rendering]:
    import selectors

    with selectors.DefaultSelector() as selector:
        pool = _Pool(command, folders, workers, selector)
        try:
            while (answer := pool.next()) is not None:
                arrived()
                yield _rendering(*answer)
        finally:
            pool.end()


class _Pool:
    """The processes, and the folders that wait for one."""

    def __init__(
        self, command: "_Command", folders: Iterator[str], workers: int, selector: "selectors.BaseSelector"
    ) -> None:
        self.command = command
        self.ahead = folders
        self.folders: dict[int, str] = {}
        """Those that were taken and not yet answered, by their number."""
        self.taken = self.given = 0
        self.workers = workers
        self.selector = selector
        self.processes: list[_Process] = []
        self.answers: dict[int, bytes | Rendering] = {}
        self.waiting: deque[int] = deque()

    def next(self) -> tuple[str, bytes | Rendering] | None:
        """The next folder and its answer, in the order of the folders; None after the last."""
        index = self.given
        if index == self.taken and not self._take():
            return None
        end = index + _BUFFERED * self.workers
        self._hand_out(end)
        while index not in self.answers:
            self._collect()
            self._hand_out(end)
        self.given += 1
        return self.folders.pop(index), self.answers.pop(index)

    def _take(self) -> bool:
        """Take the next folder from whoever names them; False after the last."""
        folder = next(self.ahead, None)
        if folder is None:
            return False
        self.folders[self.taken] = folder
        if unusual := _unusual(folder):
            self.answers[self.taken] = _failure(folder, unusual)
        else:
            self.waiting.append(self.taken)
        self.taken += 1
        return True

    def end(self) -> None:
        for process in self.processes:
            process.end()

    def _hand_out(self, end: int) -> None:
        """Give the next folders, up to number `end`, to the processes that have least to do."""
        while self.waiting or (self.taken < end and self._take()):
            if not self.waiting:
                continue
            process = min(self.processes, key=lambda process: len(process.asked), default=None)
            if len(self.processes) < self.workers and (process is None or process.asked):
                process = self._start()
            if process is None or len(process.asked) >= _AHEAD:
                return
            index = self.waiting.popleft()
            process.ask(index, self.folders[index])

    def _start(self) -> "_Process":
        import selectors

        with _uninterrupted():
            process = self.command.start()
            self.processes.append(process)
        self.selector.register(process.output, selectors.EVENT_READ, process)
        return process

    def _collect(self) -> None:
        """Wait until a process answers, ends or has taken too long. Only time spent here counts against it."""
        patience = limits.RENDER_SECONDS - max(process.seconds for process in self.processes)
        start = time.monotonic()
        ready = {key.data for key, _ in self.selector.select(max(patience, 0.0))}
        waited = time.monotonic() - start
        for process in list(self.processes):
            process.seconds += waited if process.asked else 0.0
            if process in ready:
                self._read(process)
            elif process.seconds >= limits.RENDER_SECONDS:
                self._replace(process, f"took longer than {limits.RENDER_SECONDS} s")

    def _read(self, process: "_Process") -> None:
        lines, open_ = process.read()
        for line in lines:
            self.answers[process.asked.popleft()] = line
            process.seconds = 0.0
        if not open_:
            self._replace(process, *process.why_it_ended())

    def _replace(self, process: "_Process", failure: str, broke: bool = False) -> None:
        """End a process. The folder that it was at has failed, and the others go to the next one."""
        self.selector.unregister(process.output)
        self.processes.remove(process)
        process.end()
        if process.asked:
            index = process.asked.popleft()
            self.answers[index] = _failure(self.folders[index], failure, broke)
        self.waiting.extendleft(reversed(process.asked))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep signals that end a run waiting: a process that was started and not yet noted would go on alone."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


_NAME_LENGTH = 4096


def _unusual(folder: str) -> str:
    if not folder.isprintable():
        return "the folder's name has characters that cannot be printed"
    return "the folder's name is too long" if len(folder) > _NAME_LENGTH else ""


def _failure(folder: str, error: str, broke: bool = False) -> Rendering:
    return Rendering(folder=folder, objects=[], reads={}, error=error, broke=broke)


def _rendering(folder: str, answer: bytes | Rendering) -> Rendering:
    if isinstance(answer, Rendering):
        return answer
    document = json.loads(answer)
    if document["folder"] != folder:
        raise Fault(f"the renderer was asked for {folder} and answered for {document['folder']}")
    reads: dict[str, str] = document["reads"]
    if not document["error"]:
        return Rendering(folder, document["objects"], reads, "", document.get("yaml", ""))
    from trainyard.kustomize.error_chains import explain

    cause = explain(document["error"], folder)
    return Rendering(
        folder=folder,
        objects=[],
        reads=reads,
        error=cause.message,
        error_file=cause.file or _kustomization(reads, cause.folder),
        error_line=cause.line,
        error_text=cause.text,
    )


def _kustomization(reads: Mapping[str, str], folder: str) -> str:
    """The kustomization file of a folder that was read."""
    for name in ("kustomization.yaml", "kustomization.yml", "Kustomization"):
        path = name if folder == "." else f"{folder}/{name}"
        if is_content(reads.get(path, "")):
            return path
    return ""


_EXIT_MEMORY = 3
_EXIT_USAGE = 5


@dataclass(frozen=True, slots=True)
class _Command:
    """How a renderer is started."""

    program: Path
    root: Path
    with_yaml: bool
    unsaved: Mapping[str, str]

    def start(self) -> "_Process":
        import subprocess

        arguments = {
            "root": self.root,
            "memory-bytes": limits.RENDER_BYTES,
            "file-bytes": limits.FILE_BYTES,
            "nodes": limits.NODES,
            "kustomizations": limits.KUSTOMIZATIONS,
            "rendered-bytes": limits.RENDERED_BYTES,
            "depth": limits.DOCUMENT_DEPTH,
            "yaml": str(self.with_yaml).lower(),
            "unsaved": str(bool(self.unsaved)).lower(),
        }
        try:
            with unbounded():
                process = subprocess.Popen(
                    [self.program, *(f"-{name}={value}" for name, value in arguments.items())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={},
                    bufsize=0,
                )
        except OSError as error:
            raise Fault(f"{self.program} does not start: {error.strerror}") from error
        assert process.stdin
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        _widen(process.stdout)
        if self.unsaved:
            with suppress(BrokenPipeError):  # the end of its output tells so in its turn
                process.stdin.write(json.dumps(self.unsaved).encode() + b"\n")
        return _Process(process, process.stdin, process.stdout)


_CHUNK = 1 << 20


def _widen(pipe: IO[bytes]) -> None:
    """Let a renderer get ahead while answers are judged: one answer alone would fill a pipe of the usual size."""
    import fcntl

    with suppress(OSError, AttributeError):
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _CHUNK)


@dataclass(eq=False, slots=True)
class _Process:
    """A running renderer, and the numbers of the folders that it was asked for and has not answered."""

    popen: "subprocess.Popen[bytes]"
    input: IO[bytes]
    output: IO[bytes]
    asked: deque[int] = field(default_factory=deque)
    seconds: float = 0.0
    """How long the first of them has been waited for."""
    parts: list[bytes] = field(default_factory=list)
    """The beginning of an answer."""

    def ask(self, index: int, folder: str) -> None:
        self.asked.append(index)
        # Where it has ended, the end of its output tells so in its turn.
        with suppress(BrokenPipeError):
            self.input.write(folder.encode() + b"\n")

    def read(self) -> tuple[list[bytes], bool]:
        """The answers that have come, and whether more may come."""
        chunk = self.output.read(_CHUNK)
        if not chunk:
            return [], chunk is None
        *lines, rest = chunk.split(b"\n")
        if not lines:
            self.parts.append(rest)
            return [], True
        lines[0] = b"".join([*self.parts, lines[0]])
        self.parts = [rest]
        return lines, True

    def why_it_ended(self) -> tuple[str, bool]:
        """In words, and whether it broke: hitting a bound is the fault of the input."""
        code = self.popen.wait()
        if code == _EXIT_USAGE:
            raise Fault("the renderer does not take what it is given: was it built from another version?")
        if code == _EXIT_MEMORY:
            return f"needs more than {limits.RENDER_BYTES >> 20} MiB of memory", False
        return f"stopped the renderer ({f'signal {-code}' if code < 0 else f'exit code {code}'})", True

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        self.input.close()
        self.output.close()
