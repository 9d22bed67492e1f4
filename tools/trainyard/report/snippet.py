"""A source line with carets under the text that a finding is about."""

from dataclasses import dataclass

from trainyard.findings.finding import Position
from trainyard.report.escape import cells
from trainyard.report.terminal import width, widths, wrap

_CUT = "..."
_TAB = 4


@dataclass(frozen=True, slots=True)
class Snippet:
    """What stands to the right of the gutter."""

    source: str
    under: tuple[tuple[str, str], ...]
    """Lines below the source: blanks, then carets or words."""


def snippet(line: str, position: Position, label: str, room: int) -> Snippet:
    """Cut `line` to `room` columns around the caret. `label` is visible text of one line."""
    line = line.rstrip()
    start = min(position.column - 1, len(line))
    end = max(min(start + position.length, len(line)), start + 1)
    first, last = max(0, start - 4 * room), min(len(line), start + 4 * room)
    shown = _tabs_expanded(cells(line[first:last].replace("\t", " ")), line[first:last])
    left, right = _window(widths(shown), start - first, min(end, last) - first, room, first > 0, last < len(line))
    before = _CUT if first + left else ""
    after = _CUT if first + right < len(line) else ""
    indent = len(before) + width("".join(shown[left : start - first]))
    carets = "^" * max(1, width("".join(shown[start - first : min(end - first, right)])))
    return Snippet(before + "".join(shown[left:right]) + after, _under(indent, carets, label, room))


def _tabs_expanded(shown: list[str], line: str) -> list[str]:
    if "\t" not in line:
        return shown
    column = 0
    expanded = []
    for text, character in zip(shown, line, strict=True):
        expanded.append(" " * (_TAB - column % _TAB) if character == "\t" else text)
        column += width(expanded[-1])
    return expanded


def _window(
    columns: list[int], start: int, end: int, room: int, more_before: bool, more_after: bool
) -> tuple[int, int]:
    """Which cells fit into `room` columns with the caret among them: from, to."""
    if sum(columns) <= room and not more_before and not more_after:
        return 0, len(columns)
    left, cut = 0, len(_CUT)
    if more_before or sum(columns[:end]) + cut > room:
        budget = max(0, room - 2 * cut - sum(columns[start:end])) // 2
        left = start
        while left > 0 and columns[left - 1] <= budget:
            left -= 1
            budget -= columns[left]
    used = cut if left or more_before else 0
    if used + sum(columns[left:]) <= room and not more_after:
        return left, len(columns)
    right = left
    while right < len(columns) and used + columns[right] + cut <= room:
        used += columns[right]
        right += 1
    return left, right


def _under(indent: int, carets: str, label: str, room: int) -> tuple[tuple[str, str], ...]:
    if not label:
        return ((" " * indent, carets),)
    if indent + len(carets) + 1 + width(label) <= room:
        return ((" " * indent, f"{carets} {label}"),)
    lines = wrap(label, room)
    blanks = " " * max(0, min(indent, room - max(widths(lines))))
    return ((" " * indent, carets), *((blanks, line) for line in lines))
