"""Temporary folders that their process holds locked, so that those of processes that were killed can be told."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

STALE_SECONDS = 60
"""From which age on a folder that nobody holds is a left-over and not one that is being made."""


def sweep(prefix: str, where: Path | None = None) -> list[Path]:
    """Remove this user's folders of a prefix that nobody holds. Gives what it removed."""
    removed = []
    for folder in (where or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < STALE_SECONDS:
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        finally:
            os.close(descriptor)
    return removed
