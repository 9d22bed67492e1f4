"""Where a place in a YAML text is, told from indentation alone: a text that is being typed is seldom YAML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

ITEM = "[]"
"""A step of a path: an item of a list."""

_KEY = re.compile(r"(?P<key>[^\s#'\"\[\]{}&*!|>%@`,-][^:#]*|-[^\s:#][^:#]*|\"[^\"]*\"|'[^']*') *:(?=\s|$)")
_DASHES = re.compile(r" *(?:- +)*(?:-$)?")
_BREAK = re.compile(r"---(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a document."""

    above: tuple[str, ...]
    """The keys that lead to the map or list that it is in, ITEM for an item of a list."""
    key: str
    """The key that it is at or behind; empty where there is none yet."""
    word: str
    """What stands between the beginning of the key or value and the place."""
    at_value: bool
    """True behind the colon of the key, or behind the dash of an item, which may be the first key of a map, too."""
    row: int
    """Line of the document's first line, from 0."""

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to it, with its own."""
        return (*self.above, self.key) if self.key else self.above


def spot(lines: Sequence[str], row: int, column: int) -> Spot:
    """The place in front of a character of a line, both from 0. Flow maps and blocks of text are not looked into."""
    line = lines[row] if row < len(lines) else ""
    before = line[:column]
    dashes = _DASHES.match(before)
    assert dashes is not None
    start = dashes.end()
    key = _KEY.match(line, start)
    above, first = _above(lines, row, line, start)
    if key is None or column <= key.end("key"):
        name = _unquoted(key["key"]) if key is not None else ""
        return Spot(above, name, before[start:], key is None and "-" in dashes[0], first)
    return Spot(above, _unquoted(key["key"]), before[key.end() :].lstrip(), True, first)


def keys_beside(lines: Sequence[str], row: int, column: int) -> set[str]:
    """The keys of the map that a key at a character of a line belongs to, without that line's own."""
    found: set[str] = set()
    for step in (-1, 1):
        at = row + step
        while 0 <= at < len(lines):
            line = lines[at]
            indent = _DASHES.match(line)
            assert indent is not None
            at += step
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            dashed = "-" in indent[0]
            if _BREAK.match(line) or indent.end() < column or (dashed and step > 0 and indent.end() <= column):
                break
            if indent.end() == column and (key := _KEY.match(line, column)) is not None:
                found.add(_unquoted(key["key"]))
                if dashed:
                    break
    return found


def scalar_at_top(lines: Sequence[str], row: int, key: str) -> str:
    """The value of a key at the top of the document that begins at a line; empty where there is none."""
    for at in range(row, len(lines)):
        line = lines[at]
        if at > row and _BREAK.match(line):
            break
        if line.startswith(f"{key}:"):
            return _unquoted(line.removeprefix(f"{key}:").partition(" #")[0].strip())
    return ""


def _above(lines: Sequence[str], row: int, line: str, start: int) -> tuple[tuple[str, ...], int]:
    """The path to what begins at character `start` of a line, and the first line of the document."""
    path: list[str] = []
    keys, items = start, start
    for dash in [at for at in range(start) if line[at] == "-"][::-1]:
        path.append(ITEM)
        keys, items = dash + 1, dash
    first = 0
    for at in range(min(row, len(lines)) - 1, -1, -1):
        text = lines[at]
        if _BREAK.match(text):
            first = at + 1
            break
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        indent = _DASHES.match(text)
        assert indent is not None
        key = _KEY.match(text, indent.end())
        if key is not None and indent.end() < keys:
            path.append(_unquoted(key["key"]))
            keys = items = indent.end()
        for dash in [each for each in range(indent.end()) if text[each] == "-"][::-1]:
            if dash < items:
                path.append(ITEM)
                keys, items = dash + 1, dash
    return tuple(reversed(path)), first


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
