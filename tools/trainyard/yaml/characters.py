"""Where the characters of a string stand in the file that it was written in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.yaml.nodes import Node, RawMark


class Inside:
    """Places the marks of a document that is read from a string."""

    __slots__ = ("columns", "indent", "raw")

    def __init__(self, node: "Node", lines: Sequence[str] | None) -> None:
        self.raw = node.raw
        self.indent: int | None = None
        self.columns: list[int] | None = None
        if node.raw is None or lines is None:
            return
        if node.style == "file":
            self.indent, self.raw = 0, (node.raw[0], 0, 1, 1)
        elif node.style in ("|", ">"):
            self.indent = _block_indent(node, lines)
        else:
            self.columns = _columns(node, lines)

    def place(self, start: Any, end: Any) -> "RawMark | None":
        """The mark of what stands between two marks of the inner text."""
        if self.raw is None:
            return None
        source, line, _column, _ = self.raw
        if self.indent is not None:
            length = end.column - start.column if end.line == start.line else 1
            return (source, line + 1 + start.line, start.column + 1 + self.indent, max(length, 1))
        if self.columns is not None and end.index < len(self.columns):
            first = self.columns[start.index]
            return (source, line, first, max(self.columns[end.index] - first, 1))
        return self.raw


def _block_indent(node: "Node", lines: Sequence[str]) -> int | None:
    """Columns before the text of a block scalar, or None where its lines are not those of the source (folded)."""
    assert node.raw is not None
    inner = node.value.rstrip("\n").split("\n")
    outer = [line.rstrip("\r") for line in lines[node.raw[1] : node.raw[1] + len(inner)]]
    first = next((i for i, line in enumerate(inner) if line.strip()), None)
    if first is None or first >= len(outer) or not outer[first].endswith(inner[first]):
        return None
    indent = len(outer[first]) - len(inner[first])
    blank = " " * indent
    same = len(outer) == len(inner) and all(
        out == blank + text or (not text.strip() and not out.strip()) for out, text in zip(outer, inner, strict=True)
    )
    return indent if same else None


def _columns(node: "Node", lines: Sequence[str]) -> list[int] | None:
    """The column of each character of a scalar of one line, and that of its end. None where they cannot be told."""
    assert node.raw is not None
    _, number, column, length = node.raw
    if number > len(lines):
        return None
    written = lines[number - 1][column - 1 : column - 1 + length]
    if node.style == "":
        return [column + i for i in range(len(node.text) + 1)] if written == node.text else None
    if len(written) < 2 or written[0] != node.style or written[-1] != node.style:
        return None
    columns: list[int] = []
    i, body = 1, written[:-1]
    while i < len(body):
        columns.append(column + i)
        if node.style == "'":
            i += 2 if body[i] == "'" else 1
        elif body[i] == "\\":
            i += {"x": 4, "u": 6, "U": 10}.get(body[i + 1 : i + 2], 2)
        else:
            i += 1
    columns.append(column + i)
    return columns if len(columns) == len(node.value) + 1 else None
