"""docs/pictures/*.svg: what commands print on a terminal, as pictures, from the recordings that lie beside them.

A recording holds the command in its first line, behind `$ `, and then what it printed, colours included. Tests hold the
recordings against the commands.
"""

import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from trainyard.docs.generated import update
from trainyard.home import HOME

FOLDER = HOME / "docs" / "pictures"

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_COLOURS = {"31": "#ff9c94", "32": "#7ee2a0", "33": "#f2cc60", "34": "#8cc8ff", "36": "#7fdbe8"}
"""Each is read easily on _GROUND, at 8 to 1 or more; the picture has its own ground, so that it is on any page."""
_GROUND, _EDGE, _TEXT = "#16191d", "#7d8590", "#e6e6e6"
_SIZE, _ADVANCE, _LINE, _MARGIN = 14, 8.43, 20, 16
"""Pixels: of a letter's height and width, of a line, around the text."""


def picture(recording: str) -> str:
    """A recording as SVG. Nothing in it is fetched, and it grows with its column."""
    lines = recording.rstrip("\n").split("\n")
    widest = max(len(_ESCAPE.sub("", line)) for line in lines)
    width, height = round(widest * _ADVANCE) + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    title = escape(_ESCAPE.sub("", lines[0]).removeprefix("$ "))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{_SIZE}">',
        f"<title>What {title} prints</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="{_GROUND}" stroke="{_EDGE}"/>',
    ]
    for number, line in enumerate(lines, start=1):
        spans = "".join(_spans(line))
        if spans:
            at = f'x="{_MARGIN}" y="{_MARGIN + number * _LINE - 6}"'
            parts.append(f'<text {at} fill="{_TEXT}" xml:space="preserve">{spans}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _spans(line: str) -> Iterator[str]:
    """The pieces of a line, each with its colour and weight."""
    style: tuple[str, ...] = ()
    for number, piece in enumerate(_ESCAPE.split(line)):
        if number % 2:
            style = () if piece in ("", "0") else (*style, *piece.split(";"))
        elif piece:
            colour = next((_COLOURS[code] for code in style if code in _COLOURS), "")
            marks = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if "1" in style else "")
            yield f"<tspan{marks}>{escape(piece)}</tspan>" if marks else escape(piece)


def recordings() -> list[Path]:
    """The recordings, by name."""
    return sorted(FOLDER.glob("*.txt"))


def main() -> int:
    """Draw them, or with --check say which differ."""
    wanted = {file.with_suffix(".svg"): picture(file.read_text(encoding="utf-8")) for file in recordings()}
    return update(wanted, "docs/pictures/*.txt", FOLDER.glob("*.svg"))


if __name__ == "__main__":
    sys.exit(main())
