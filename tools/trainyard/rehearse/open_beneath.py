"""Files in folders that containers write into, opened so that no link that a container left there leads out of them."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LARGEST = 1 << 20
"""Bytes of a file that are read."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not waiting, as one would for a pipe's writer


@contextmanager
def folder(root: Path, path: str = "", *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder at `path` in `root`, made if it is to be. OSError where there is none, or a link."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OSError(errno.EXDEV, "leads out of its volume", path)
    if "\0" in path:
        raise OSError(errno.EINVAL, "has a null character", path)
    found = os.open(root, _FOLDER)
    try:
        for part in parts:
            if make and not _is_there(found, part):
                os.mkdir(part, 0o777, dir_fd=found)
                os.chmod(part, 0o777, dir_fd=found)
            inner = os.open(part, _FOLDER, dir_fd=found)
            os.close(found)
            found = inner
        yield found
    finally:
        os.close(found)


def sizes(root: Path, most: int) -> dict[str, int]:
    """Bytes of each regular file below a folder, by its path there; of so many at most.

    os.fwalk is not for this: it opens what a link leads to before it finds that it is one.
    """
    found: dict[str, int] = {}
    waiting = [""]
    while waiting and len(found) < most:
        path = waiting.pop()
        with suppress(OSError), folder(root, path) as there:
            for name in os.listdir(there):
                about = os.lstat(name, dir_fd=there)
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(f"{path}/{name}")
                elif stat.S_ISREG(about.st_mode):
                    found[f"{path}/{name}".lstrip("/")] = about.st_size
    return found


def read(where: int, name: str) -> str:
    """The beginning of a regular file in an open folder. OSError where it is none."""
    descriptor = os.open(name, _FILE, dir_fd=where)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", name)
        return file.read(LARGEST).decode(errors="replace")


def _is_there(where: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=where)
    except FileNotFoundError:
        return False
    return True
