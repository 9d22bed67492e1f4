"""Parts of the set-up: when one is fresh, and how it is replaced whole or not at all."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from set_up.command import Progress


@dataclass(frozen=True, slots=True)
class Part:
    """One folder under .tools."""

    name: str
    inputs: tuple[Path, ...]
    """The files that it is made from, in the order of its stamp."""
    programs: tuple[str, ...]
    """What it must hold to be whole."""
    make: Callable[[Path], None]
    """Makes it in an empty folder."""

    def stamp(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.inputs)


def is_fresh(tools: Path, part: Part) -> bool:
    """Whether a part is in the folder `tools`, whole, and made from its inputs as they are now."""
    folder = tools / part.name
    if not all(os.access(folder / program, os.X_OK) for program in part.programs):
        return False
    try:
        return (folder / "stamp").read_bytes() == part.stamp()
    except FileNotFoundError:
        return False


def ensure(tools: Path, part: Part) -> Path:
    """The folder of a part, made first if it is not fresh. Call it under the lock."""
    target = tools / part.name
    if is_fresh(tools, part):
        return target
    stamp = part.stamp()
    fresh, stale = tools / f"tmp-new-{part.name}", tools / f"tmp-old-{part.name}"
    try:
        fresh.mkdir()
        part.make(fresh)
        (fresh / "stamp").write_bytes(stamp)
        if target.exists():  # a folder that holds files cannot be renamed over
            target.rename(stale)
        fresh.rename(target)
    finally:
        _remove(fresh, ignore_errors=True)
        _remove(stale, ignore_errors=True)
    return target


def _remove(path: Path, ignore_errors: bool = False) -> None:
    """Remove a folder and all below it. Where somebody put a link in a part's place, the link goes and no more."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=ignore_errors)


@contextlib.contextmanager
def locked(tools: Path, progress: Progress) -> Iterator[int]:
    """Holds the set-up's lock on the folder `tools`, made if need be, and removes what a killed set-up left there.

    Gives the lock's file descriptor. A command that inherits it holds the lock too: where this process is killed, the
    next set-up waits for the command's end.
    """
    tools.mkdir(exist_ok=True)
    lock = os.open(tools / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step("waiting for another set-up of this checkout")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for path in tools.glob("tmp-*"):
            _remove(path)
        yield lock
    finally:
        os.close(lock)
