"""The folder and the mounts of a rehearsal, which end with it however it ends."""

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard import leftovers

PREFIX = "trainyard-rehearsal-"
_NEW_MOUNTS = 0x00020000
_PRIVATE = 1 << 18
_RECURSIVE = 1 << 14


@contextmanager
def state_folder() -> Iterator[Path]:
    """An empty folder for one rehearsal; what killed ones have left is removed first."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(where: Path | None = None) -> list[Path]:
    """Remove the folders of rehearsals that were killed. Gives what it removed."""
    return leftovers.sweep(PREFIX, where)


def own_mounts() -> bool:
    """Give this process mounts of its own, which vanish with it and its children. False without the right to it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_MOUNTS) != 0:
        return False
    return bool(library.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) == 0)


def unmount(folder: Path) -> None:
    """Let go of what is mounted below a folder."""
    with open("/proc/self/mounts") as table:
        points = [line.split()[1].encode().decode("unicode_escape") for line in table]  # "\\040" is a space
    library = ctypes.CDLL(None)
    for point in reversed([point for point in points if point.startswith(f"{folder}/")]):
        library.umount2(point.encode(), 2)
