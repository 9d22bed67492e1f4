"""What the terminal at the other end can do: colours, columns, wide characters."""

import os
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TextIO

from trainyard.errors import UsageError

COLOR_CHOICES = ("auto", "always", "never")
WIDTH = 100
"""Columns where there is no terminal to ask."""

_NARROWEST = 40


def wants_color(choice: str, out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """What `--color` means for this stream: auto is a terminal that is not dumb, and no NO_COLOR in the environment."""
    if choice not in COLOR_CHOICES:
        raise UsageError(f"--color is one of {', '.join(COLOR_CHOICES)}, not {choice}")
    if choice != "auto":
        return choice == "always"
    return out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def columns(out: TextIO) -> int:
    """Columns of the terminal behind `out`, WIDTH where there is none."""
    try:
        found = os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return WIDTH
    return max(found, _NARROWEST) if found else WIDTH


def width(text: str) -> int:
    """Columns that visible text takes: two for East Asian wide characters and emoji, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_width, text))


def widths(texts: Iterable[str]) -> list[int]:
    """Columns of each text."""
    return [width(text) for text in texts]


def wrap(text: str, room: int) -> list[str]:
    """Visible text in lines of at most `room` columns, broken at spaces; a longer word stands alone and sticks out."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and width(lines[-1]) + 1 + width(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
