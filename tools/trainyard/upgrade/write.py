"""Writes an upgrade so that it can be ended at any moment: run again, it goes on where it was."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainyard import leftovers
from trainyard.errors import UsageError
from trainyard.upgrade.changes import Changes
from trainyard.upgrade.record import NAME

PREFIX = ".trainyard-upgrade-"
"""How the folder begins in which an upgrade is made, at the root of the repository."""


def apply(root: Path, changes: Changes) -> None:
    """Make `changes` in `root`. UsageError where a file cannot be written.

    All content is written beside its place first, and moved there afterwards: where the disk is full, nothing has
    changed. The record comes last, so that a run that was ended finds what it wrote as it should be.
    """
    leftovers.sweep(PREFIX, root)
    at = str(root)
    try:
        with _beside(root) as folder:
            staged = {}
            for number, (at, source) in enumerate(changes.written.items()):
                staged[at] = folder / str(number)
                shutil.copyfile(source, staged[at])
            at = NAME
            record = folder / "record"
            record.write_text(changes.record.text(), encoding="utf-8")
            for at, file in staged.items():
                (root / at).parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, root / at)
            for at in changes.removed:
                _remove(root, at)
            at = NAME
            os.replace(record, root / NAME)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"cannot write {at}: {why}; run it again once it can be") from None


@contextmanager
def _beside(root: Path) -> Iterator[Path]:
    """A folder that Git does not show, held as long as this process makes something in it."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        (folder / ".gitignore").write_text("*\n")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _remove(root: Path, name: str) -> None:
    """Remove a file, and the folders that it was the last in."""
    (root / name).unlink()
    folder = (root / name).parent
    with suppress(OSError):  # what is not empty stays
        while folder != root:
            folder.rmdir()
            folder = folder.parent
