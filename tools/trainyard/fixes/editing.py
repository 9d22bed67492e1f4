"""One change of a text: from the pieces of its layout to the stretch that is replaced and what takes its place."""

import re
from dataclasses import dataclass
from typing import Any

from trainyard.fixes import writing
from trainyard.fixes.canvas import Canvas
from trainyard.fixes.layout import Piece, parts
from trainyard.fixes.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one offset of a canvas to another, and the new text, whose further lines carry their own blanks."""

    start: int
    end: int
    text: str


def replaced(canvas: Canvas, piece: Piece, value: Any) -> Stretch:
    """A value in the place of another."""
    text = canvas.layout.text
    if piece.kind == "scalar":
        if piece.style in ("|", ">"):
            raise Refusal("it is a text of several lines: edit it by hand")
        in_flow = piece.parent is not None and piece.parent.flow
        if piece.start == piece.end:
            if piece.key is not None and ":" not in text[piece.key.end : piece.start]:
                raise Refusal("its key stands without a colon: edit it by hand")
            gap = "" if text[piece.start - 1 : piece.start].isspace() else " "
            return Stretch(piece.start, piece.end, gap + _one_line(value, _quotes(canvas, piece)))
        if isinstance(value, dict) and piece.parent is not None and piece.parent.kind == "seq":
            lines = [writing.flow(value, _quotes(canvas, piece))] if in_flow else writing.block(value)
            return Stretch(piece.start, piece.end, _lines(lines, _column(canvas, piece.start)))
        if isinstance(value, dict | list):
            raise Refusal("it holds a single value where a map or a list belongs: edit it by hand")
        return Stretch(piece.start, piece.end, writing.scalar(value, piece.style, in_flow=in_flow))
    if not isinstance(value, dict if piece.kind == "map" else list):
        raise Refusal("it holds a map or a list where a single value belongs: edit it by hand")
    _keep_anchors(piece)
    _keep_comments(canvas, piece.start, piece.end)
    if piece.flow or not value:
        return Stretch(piece.start, piece.end, writing.flow(value, _quotes(canvas, piece)))
    return Stretch(piece.start, piece.end, _lines(writing.block(value), _column(canvas, piece.start)))


def reworded(canvas: Canvas, piece: Piece, old: str, new: str) -> Stretch:
    """A word in the place of another that stands once in a text."""
    written = canvas.layout.text[piece.start : piece.end]
    bounded = re.compile(rf"(?<![^\s\"'=,:]){re.escape(old)}(?![^\s\"',;:&|)])")
    found = list(bounded.finditer(written))
    if len(found) != 1:
        times = f"{len(found)} times" if found else "in another form"
        raise Refusal(f"{old} stands there {times}: edit it by hand")
    if writing.scalar(new, piece.style) != writing.scalar(new) and piece.style not in ('"', "'", "|", ">"):
        raise Refusal(f"{new} cannot stand there without quotes: edit it by hand")
    if not re.fullmatch(r"[\w./:,=@%+*-]*", new):
        raise Refusal(f"{new} would need quotes of its own there: edit it by hand")
    return Stretch(piece.start + found[0].start(), piece.start + found[0].end(), new)


def begun(canvas: Canvas, piece: Piece, command: str) -> Stretch:
    """A command at the beginning of a script: on a line of its own, behind `#!`, where the script has lines."""
    text = canvas.layout.text
    if piece.style not in ("|", ">"):
        start = piece.start + (piece.style in ('"', "'"))
        return Stretch(start, start, f"{command}; ")
    start = canvas.layout.line_end(piece.start) + 1
    while start < piece.end and (not text[start : canvas.layout.line_end(start)].strip() or "#!" in text[start:][:99]):
        start = text.find("\n", start) + 1
    if piece.style == ">" or start >= piece.end:
        raise Refusal("its lines are joined when it is read: edit it by hand")
    indent = text[start:][: len(text[start:]) - len(text[start:].lstrip(" "))]
    return Stretch(start, start, f"{indent}{command}\n")


def renamed(key: Piece, holder: Piece, name: str) -> Stretch:
    """A key under another name."""
    if any(each.value == name for each, _ in holder.entries):
        raise Refusal(f"there is a key {name} already: edit it by hand")
    return Stretch(key.start, key.end, writing.scalar(name, key.style, in_flow=holder.flow))


def inserted(canvas: Canvas, holder: Piece, key: str, value: Any) -> Stretch:
    """A key that is new in a map: after its first keys of one line, else before them all."""
    if any(each.value == key for each, _ in holder.entries):
        raise Refusal(f"{key} stands here, and another layer changes it: edit it by hand")
    if holder.flow:
        return _in_flow(canvas, holder, key, value)
    first = holder.entries[0][0]
    column = _column(canvas, first.start)
    lines = writing.entry(key, value)
    after = _leading(canvas, holder)
    if after is None:
        return Stretch(first.start, first.start, _lines(lines, column) + "\n" + " " * column)
    end = canvas.layout.line_end(after.end)
    return Stretch(end, end, "\n" + " " * column + _lines(lines, column))


def appended(canvas: Canvas, holder: Piece, item: Any) -> Stretch:
    """An item at the end of a list."""
    if holder.flow:
        quotes = _quotes(canvas, holder)
        if not holder.items:
            return Stretch(holder.start + 1, holder.end - 1, writing.flow(item, quotes))
        last = holder.items[-1]
        return Stretch(last.end, last.end, _comma(canvas, holder, holder.items[0]) + writing.flow(item, quotes))
    column = _column(canvas, holder.start)
    end = canvas.layout.line_end(holder.end)
    return Stretch(end, end, "\n" + " " * column + _lines(writing.listed(item), column))


def removed(canvas: Canvas, piece: Piece) -> Stretch:
    """Nothing in the place of a key with its value, or of an item."""
    holder = piece.parent
    if holder is None:
        raise Refusal("it is a whole document: edit it by hand")
    _keep_anchors(piece)
    firsts = [key.start for key, _ in holder.entries] or [item.start for item in holder.items]
    ends = [value.end for _, value in holder.entries] or [item.end for item in holder.items]
    own = (piece.key or piece).start
    index = firsts.index(own)
    end = max(ends[index], piece.key.end if piece.key else 0)
    if len(firsts) == 1:
        return _emptied(canvas, holder)
    if holder.flow:
        start, stop = (ends[index - 1], end) if index else (own, firsts[1])
        _keep_comments(canvas, start, stop)
        return Stretch(start, stop, "")
    if piece.key is None:
        own = _dash(canvas, own)
    start = canvas.layout.line_start(own)
    if canvas.layout.text[start:own].strip():
        if index or piece.key is None:
            raise Refusal("it shares its line with something else: edit it by hand")
        _keep_comments(canvas, own, firsts[1])
        return Stretch(own, firsts[1], "")
    stop = canvas.layout.line_end(end)
    _keep_comments(canvas, start, stop)
    line_break = canvas.layout.text.find("\n", stop)
    return Stretch(start, line_break + 1 if line_break >= 0 else len(canvas.layout.text), "")


def _emptied(canvas: Canvas, holder: Piece) -> Stretch:
    """A map or list with nothing in it, on the line of its key."""
    if holder.flow:
        return Stretch(holder.start + 1, holder.end - 1, "")
    start = holder.start if holder.key is None else canvas.layout.text.find(":", holder.key.end) + 1
    if canvas.layout.text[start : holder.start].strip(" \r\n-"):
        raise Refusal("a comment stands in what would go: edit it by hand")
    _keep_comments(canvas, start, holder.end)
    return Stretch(start, holder.end, (" " if holder.key else "") + ("{}" if holder.kind == "map" else "[]"))


def _leading(canvas: Canvas, holder: Piece) -> Piece | None:
    """The last of the entries at the beginning that take one line each."""
    found = None
    for key, value in holder.entries:
        if value.kind != "scalar" or value.style in ("|", ">") or value.key is None:
            break
        if canvas.layout.line_start(key.start) != canvas.layout.line_start(value.end):
            break
        found = value if value.end > key.end else key
        if found is key:
            break
    return found


def _in_flow(canvas: Canvas, holder: Piece, key: str, value: Any) -> Stretch:
    quotes = _quotes(canvas, holder)
    text = f"{writing.scalar(key, quotes, in_flow=True)}: {writing.flow(value, quotes)}"
    if not holder.entries:
        return Stretch(holder.start + 1, holder.end - 1, text)
    last_key, last = holder.entries[-1]
    end = max(last_key.end, last.end)
    return Stretch(end, end, _comma(canvas, holder, holder.entries[0][0]) + text)


def _comma(canvas: Canvas, holder: Piece, first: Piece) -> str:
    """What stands before a new part of a flow map or list: a line of its own where the first part has one."""
    before = canvas.layout.text[holder.start + 1 : first.start]
    if "\n" not in before or canvas.one_line:
        return ", "
    return ",\n" + " " * _column(canvas, first.start)


def _quotes(canvas: Canvas, piece: Piece) -> str:
    """A double quote where keys around are written so, as in JSON."""
    holder: Piece | None = piece
    while holder is not None:
        if holder.entries:
            return '"' if all(key.style == '"' for key, _ in holder.entries) else ""
        holder = holder.parent
    return '"' if canvas.file.endswith(".json") else ""


def _one_line(value: Any, quotes: str) -> str:
    return writing.flow(value, quotes) if isinstance(value, dict | list) else writing.scalar(value, quotes)


def _lines(lines: list[str], column: int) -> str:
    return ("\n" + " " * column).join(lines)


def _column(canvas: Canvas, offset: int) -> int:
    return offset - canvas.layout.line_start(offset)


def _dash(canvas: Canvas, start: int) -> int:
    """Where the dash of an item stands."""
    text = canvas.layout.text
    dash = text.rfind("-", 0, start)
    if dash < 0 or text[dash + 1 : start].strip() or "\n" in text[dash:start]:
        raise Refusal("its dash stands elsewhere: edit it by hand")
    return dash


def _keep_anchors(piece: Piece) -> None:
    """Refusal where an alias elsewhere may need what would go."""
    if any(part.shared or part.marked for part in parts(piece)):
        raise Refusal("an anchor or a tag stands in what would go: edit it by hand")


def _keep_comments(canvas: Canvas, start: int, end: int) -> None:
    """Refusal where a comment stands in what would go."""
    text = canvas.layout.text
    for match in re.compile(r"(?:^|(?<=\s))#", re.MULTILINE).finditer(text, start, end):
        piece = canvas.layout.covering(match.start())
        if piece is None or match.start() >= piece.end:
            raise Refusal("a comment stands in what would go: edit it by hand")
