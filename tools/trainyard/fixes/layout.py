"""Where every key, value and item of a YAML text begins and ends, to the character.

Nodes say what a value is and where it starts; an edit needs the end too, what stands around it, and whether an anchor
or an alias shares it. Offsets count characters from 0.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Piece:
    """A scalar, a map, a list or an alias as it is written."""

    __slots__ = (
        "end",
        "entries",
        "flow",
        "items",
        "key",
        "kind",
        "marked",
        "parent",
        "shared",
        "start",
        "style",
        "value",
    )

    def __init__(self, kind: str, start: int, end: int, parent: "Piece | None") -> None:
        self.kind = kind
        """scalar, map, seq or alias."""
        self.start = start
        self.end = end
        """After the last character; trailing comments and blank lines are outside."""
        self.parent = parent
        self.key: Piece | None = None
        """Its key, where it is a value of a map."""
        self.style = ""
        self.flow = False
        self.value = ""
        self.marked = False
        """True where an anchor or a tag is written before it."""
        self.shared: bool = parent is not None and parent.shared
        """True where an alias repeats it, or something that it stands in."""
        self.entries: list[tuple[Piece, Piece]] = []
        self.items: list[Piece] = []


class Layout:
    """All pieces of one text, which may hold several documents."""

    def __init__(self, text: str) -> None:
        """ValueError for text that is not YAML."""
        self.text = text
        self.starts = [0]
        for index, sign in enumerate(text):
            if sign == "\n":
                self.starts.append(index + 1)
        self.values: dict[int, Piece] = {}
        self.keys: dict[int, Piece] = {}
        self.scalars: list[Piece] = []
        """Values and keys that are scalars, in order."""
        self.roots: list[Piece] = []
        try:
            self._read()
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
        self._firsts = [piece.start for piece in self.scalars]

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column, both from 1."""
        return self.starts[line - 1] + column - 1 if 0 < line <= len(self.starts) else -1

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        row = bisect_right(self.starts, offset) - 1
        return row + 1, offset - self.starts[row] + 1

    def line_end(self, offset: int) -> int:
        """The offset of the end of a line, before its line break."""
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if self.text[end - 1 : end] == "\r" and end > offset else end

    def line_start(self, offset: int) -> int:
        """The offset of the first character of a line."""
        return self.starts[bisect_right(self.starts, offset) - 1]

    def covering(self, offset: int) -> Piece | None:
        """The scalar that a character stands in."""
        index = bisect_right(self._firsts, offset) - 1
        piece = self.scalars[index] if index >= 0 else None
        return piece if piece is not None and piece.start <= offset <= piece.end else None

    def _read(self) -> None:
        anchors: dict[str, Piece] = {}
        stack: list[Piece] = []
        waiting: list[Piece | None] = []
        for event in yaml.parse(self.text, Loader=_Loader):
            if isinstance(event, yaml.DocumentStartEvent):
                anchors.clear()
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                waiting.pop()
                self._close(stack.pop(), event)
            elif isinstance(event, yaml.NodeEvent):
                piece = self._piece(event, stack[-1] if stack else None)
                if piece.kind == "alias":
                    _share(anchors.get(event.anchor or ""))
                elif event.anchor:
                    anchors[event.anchor] = piece
                self._put(piece, stack, waiting)
                if piece.kind in ("map", "seq"):
                    stack.append(piece)
                    waiting.append(None)

    def _piece(self, event: Any, parent: Piece | None) -> Piece:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.AliasEvent):
            return Piece("alias", start, end, parent)
        marked = bool(event.anchor) or event.tag not in (None, "!")
        if not isinstance(event, yaml.ScalarEvent):
            piece = Piece("map" if isinstance(event, yaml.MappingStartEvent) else "seq", start, end, parent)
            piece.flow = event.flow_style
        else:
            piece = Piece("scalar", start, start + len(self.text[start:end].rstrip()), parent)
            piece.style, piece.value = event.style or "", event.value
            marked = marked or event.tag == "!"
        piece.marked = marked
        return piece

    def _put(self, piece: Piece, stack: list[Piece], waiting: list[Piece | None]) -> None:
        if piece.kind == "scalar":
            self.scalars.append(piece)
        if not stack:
            self.roots.append(piece)
            self.values[piece.start] = piece
            return
        parent = stack[-1]
        if parent.kind == "seq":
            parent.items.append(piece)
        elif waiting[-1] is None:
            waiting[-1] = piece
            self.keys[piece.start] = piece
            return
        else:
            piece.key, waiting[-1] = waiting[-1], None
            parent.entries.append((piece.key, piece))
        self.values[piece.start] = piece

    def _close(self, piece: Piece, event: Any) -> None:
        if piece.flow:
            piece.end = event.end_mark.index
            return
        below = [part for entry in piece.entries for part in entry] or piece.items
        piece.end = max((part.end for part in below), default=piece.start)


def _share(piece: Piece | None) -> None:
    if piece is None:
        return
    for part in parts(piece):
        part.shared = True


def parts(piece: Piece) -> Iterator[Piece]:
    """A piece and everything in it."""
    yield piece
    for key, value in piece.entries:
        yield key
        yield from parts(value)
    for item in piece.items:
        yield from parts(item)
