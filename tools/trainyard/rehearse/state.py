"""The folder and the mounts of a rehearsal, which end with it however it ends."""

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "trainyard-rehearsal-"
STALE_SECONDS = 60
"""From which age on a folder that nobody holds is a left-over and not one that is being made."""
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
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(where: Path | None = None) -> list[Path]:
    """Remove the folders of rehearsals that were killed. Gives what it removed."""
    removed = []
    for folder in (where or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < STALE_SECONDS:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        except BlockingIOError:
            continue
        finally:
            os.close(held)
    return removed


def own_mounts() -> bool:
    """Give this process mounts of its own, which vanish with it and its children. False without the right to it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_MOUNTS) != 0:
        return False
    return bool(library.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) == 0)


def _unmount(folder: Path) -> None:
    """Let go of what is mounted below a folder."""
    with open("/proc/self/mounts") as table:
        points = [line.split()[1] for line in table]
    library = ctypes.CDLL(None)
    for point in reversed([point for point in points if point.startswith(f"{folder}/")]):
        library.umount2(point.encode(), 2)
