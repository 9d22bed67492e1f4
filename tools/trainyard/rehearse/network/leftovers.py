"""Folders of rehearsals: named by the process that made them, so that those of dead ones can be told and removed."""

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "trainyard-network-"


def new_folder() -> Path:
    """An empty folder for this process."""
    process = os.getpid()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-{started(process)}-"))


def sweep() -> None:
    """Remove the folders of this user's processes that have ended without doing so, as after SIGKILL."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*-*"):
        process, moment, *_ = folder.name.removeprefix(_PREFIX).split("-")
        if _is_own(folder) and process.isdigit() and started(int(process)) != moment:
            shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid()
    except OSError:
        return False


def started(process: int) -> str:
    """When a process began, in ticks since boot; empty where there is none of this number."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
