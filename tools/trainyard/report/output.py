"""Reports in files."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from trainyard.errors import UsageError


def write_file(file: Path, fill: Callable[[TextIO], None]) -> None:
    """Write a file whole or not at all; what is not a plain file, such as /dev/stderr or a pipe, as it comes.

    UsageError where that is not possible: then an older file is as it was.
    """
    try:
        if os.path.exists(file) and not stat.S_ISREG(os.stat(file).st_mode):
            with open(file, "w", encoding="utf-8", errors="backslashreplace") as out:
                fill(out)
        else:
            _replace(Path(os.path.realpath(file)), fill)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {(error.strerror or type(error).__name__).lower()}") from None


def write_text(file: Path, text: str) -> None:
    """Write a file of this text, as `write_file` does."""

    def fill(out: TextIO) -> None:
        out.write(text)

    write_file(file, fill)


def _replace(file: Path, fill: Callable[[TextIO], None]) -> None:
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(None, "the file is write-protected")
    temporary = file.with_name(f".{file.name[:200]}.{os.getpid()}")
    try:
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as out:
            fill(out)
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
