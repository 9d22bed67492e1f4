"""Edits of files, and files written whole or not at all."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from trainyard.cache import text_digest
from trainyard.findings.finding import Edit


class ChangedError(Exception):
    """A file is not what the edits were made for, and is left as it is."""


def edited(text: str, edits: Sequence[Edit]) -> str:
    """A file's text with all edits made. They must not overlap. ChangedError where they are for another text."""
    if any(edit.digest != text_digest(text) for edit in edits):
        raise ChangedError
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix(mark)
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    made, done = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column)):
        made.append(text[done : starts[edit.line - 1] + edit.column - 1])
        made.append(edit.text)
        done = starts[edit.end_line - 1] + edit.end_column - 1
    return mark + "".join((*made, text[done:]))


def overlapping(edits: Iterable[Edit], others: Iterable[Edit]) -> bool:
    """True where two edits touch: also where both insert at one place, since one does not know of the other."""
    for one in edits:
        start, end = (one.line, one.column), (one.end_line, one.end_column)
        for other in others:
            first, last = (other.line, other.column), (other.end_line, other.end_column)
            if one.file == other.file and start <= last and first <= end:
                return True
    return False


def by_file(root: Path, edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """Edits by the file that they are really made in, symlinks followed, below `root`; one outside keeps its name."""
    found: dict[str, list[Edit]] = {}
    base = os.path.realpath(root)
    for edit in edits:
        real = os.path.realpath(root / edit.file)
        inside = real.startswith(base + os.sep)
        found.setdefault(os.path.relpath(real, base) if inside else real, []).append(edit)
    return found


def read(file: Path) -> str:
    """The text of a file, its line breaks as they are."""
    return file.read_bytes().decode()


def write(root: Path, texts: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Write each file whole, beside the old one and then in its place. Returns why some were not, by file.

    A file whose text is no longer the one in `before`, or that lies outside `root`, is left as it is.
    """
    failed = {}
    base = os.path.realpath(root)
    for name, text in texts.items():
        file = Path(os.path.realpath(root / name))
        if not str(file).startswith(base + os.sep):
            failed[name] = "lies outside the repository"
            continue
        try:
            _replace(file, text, before[name])
        except ChangedError:
            failed[name] = "changed while it was judged"
        except (OSError, UnicodeDecodeError) as error:
            failed[name] = (getattr(error, "strerror", None) or type(error).__name__).lower()
    return failed


def _replace(file: Path, text: str, before: str) -> None:
    if not os.access(file, os.W_OK):
        raise PermissionError(None, "the file is write-protected")
    temporary = file.with_name(f".{file.name[:200]}.{os.getpid()}")
    try:
        with open(temporary, "xb") as out:
            os.fchmod(out.fileno(), file.stat().st_mode & 0o7777)
            out.write(text.encode())
        if read(file) != before:
            raise ChangedError
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
