"""Charts as inline SVG; colours are classes, which the page gives for light and dark."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

from trainyard.benchreport.wording import number

WIDTH, HEIGHT = 520, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 28
_LABELLED = 6
"""Points that get their name written beside them; the rest have it on hover."""

Point = tuple[float, float, str, str]
"""Across, up, class and title."""


class Frame:
    """The place of values in a chart."""

    def __init__(self, across: Sequence[float], up: Sequence[float], zero: bool = False) -> None:
        self.low_x, self.high_x = _range(across)
        self.low_y, self.high_y = _range([*up, 0.0] if zero else up, margin=0.08)

    def x(self, value: float) -> float:
        return _LEFT + (value - self.low_x) / (self.high_x - self.low_x) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (value - self.low_y) / (self.high_y - self.low_y) * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, unit: str, across: str, percent: bool = False) -> list[str]:
        """Lines, three marks up and the words below."""
        bottom = HEIGHT - _BOTTOM
        parts = []
        for value in (self.low_y, (self.low_y + self.high_y) / 2, self.high_y):
            at, shown = self.y(value), f"{value:+.1%}" if percent else number(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"/>')
            parts.append(
                f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(shown)}</text>'
            )
        parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(across)}</text>'
        )
        parts.append(f'<text class="tick" x="{_LEFT}" y="{HEIGHT - 8}">{escape(unit)}</text>')
        return parts


def points(
    of: Sequence[Point], unit: str, across: str, *, marks: Mapping[float, str] | None = None, percent: bool = False
) -> str:
    """Dots; `marks` are vertical lines with a title each. With `percent`, changes about a line at zero."""
    frame = Frame([point[0] for point in of], [point[1] for point in of], zero=percent)
    parts = frame.axes(unit, across, percent)
    if percent:
        parts.append(f'<path class="zero" d="M{_LEFT} {frame.y(0):.1f}H{WIDTH - _RIGHT}"/>')
    for at, title in (marks or {}).items():
        place = frame.x(at - 0.5)
        parts.append(
            f'<path class="mark" d="M{place:.1f} {_TOP}V{HEIGHT - _BOTTOM}"><title>{escape(title)}</title></path>'
        )
    size = 4 if len(of) <= 60 else 2.2
    for left, up, kind, title in of:
        circle = f'<circle class="{kind}" cx="{frame.x(left):.1f}" cy="{frame.y(up):.1f}" r="{size}">'
        parts.append(f"{circle}<title>{escape(title)}</title></circle>")
    parts += _labels(frame, [point for point in of if point[2] == "bad"][:_LABELLED])
    return _svg(parts, f"{unit} over {across}")


def lines(series: Mapping[str, Sequence[tuple[float, float]]], unit: str, across: str) -> str:
    """A curve a series, the first in the colour of the candidate."""
    kept = {name: [pair for pair in pairs if all(map(isfinite, pair))] for name, pairs in series.items()}
    every = [pair for pairs in kept.values() for pair in pairs]
    if not every:
        return ""
    frame = Frame([pair[0] for pair in every], [pair[1] for pair in every])
    parts = frame.axes(unit, across)
    for number_of, (name, pairs) in reversed(list(enumerate(kept.items()))):
        kind = "curve" if number_of == 0 else "curve old"
        path = "L".join(f"{frame.x(left):.1f} {frame.y(up):.1f}" for left, up in _thinned(pairs))
        if path:
            parts.append(f'<path class="{kind}" d="M{path}"><title>{escape(name)}</title></path>')
    return _svg(parts, f"{unit} over {across}")


def strip(values: Mapping[str, float], unit: str, bad: set[str]) -> str:
    """A tick a node along one axis; those in `bad` and the two ends are named."""
    height, middle = 58, 24
    low, high = _range(list(values.values()))
    parts = [f'<path class="axis" d="M{_LEFT} {middle + 12}H{WIDTH - _RIGHT}"/>']
    ordered = sorted(values.items(), key=lambda pair: pair[1])

    def x(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    for name, value in sorted(ordered, key=lambda pair: pair[0] in bad):
        kind = "tickmark bad" if name in bad else "tickmark"
        at, title = x(value), escape(f"{name}: {number(value)}")
        parts.append(f'<path class="{kind}" d="M{at:.1f} {middle - 10}V{middle + 12}"><title>{title}</title></path>')
    ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered[:1]
    for index, (name, value) in enumerate(ends):
        anchor = "start" if index == 0 else "end"
        at = _LEFT if index == 0 else WIDTH - _RIGHT
        text = f"{_short(name)} {number(value)}"
        parts.append(f'<text class="tick" x="{at}" y="{height - 6}" text-anchor="{anchor}">{escape(text)}</text>')
    for name in [name for name, _ in ordered if name in bad][:1]:
        at = min(max(x(values[name]), _LEFT + 20), WIDTH - _RIGHT - 20)
        parts.append(f'<text class="name" x="{at:.1f}" y="11" text-anchor="middle">{escape(_short(name))}</text>')
    return _svg(parts, unit, height)


def bars(of: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """A stacked bar a row, a colour a part; the parts are those of the first row and what others add."""
    parts_of = list(dict.fromkeys(part for row in of.values() for part in row))
    longest = max((sum(row.values()) for row in of.values()), default=0.0) or 1.0
    height = 22 * len(of) + 16 + 16 * (-(-len(parts_of) // 4))
    left, room = 170, WIDTH - 170 - 70
    parts = []
    for number_of, (name, row) in enumerate(of.items()):
        top, at = 6 + 22 * number_of, float(left)
        parts.append(
            f'<text class="tick" x="{left - 8}" y="{top + 12}" text-anchor="end">{escape(_short(name, 26))}</text>'
        )
        for part, value in row.items():
            wide = value / longest * room
            title = escape(f"{name}: {part} {number(value)} {unit}")
            colour = parts_of.index(part) % 8
            box = f'<rect class="part{colour}" x="{at:.1f}" y="{top}" width="{max(wide, 0):.1f}" height="15">'
            parts.append(f"{box}<title>{title}</title></rect>")
            at += wide
        parts.append(
            f'<text class="tick" x="{at + 5:.1f}" y="{top + 12}">{number(sum(row.values()))} {escape(unit)}</text>'
        )
    for number_of, part in enumerate(parts_of):
        across, down = 14 + 126 * (number_of % 4), 22 * len(of) + 24 + 16 * (number_of // 4)
        parts.append(f'<rect class="part{number_of % 8}" x="{across}" y="{down - 9}" width="10" height="10"/>')
        parts.append(f'<text class="tick" x="{across + 14}" y="{down}">{escape(part)}</text>')
    return _svg(parts, unit, height)


def _labels(frame: Frame, bad: Sequence[Point]) -> list[str]:
    """Names beside the points that stand out, each below the last where they would touch."""
    labels, free = [], 0.0
    for left, up, _, title in sorted(bad, key=lambda point: -point[1]):
        down = max(frame.y(up) + 4, free)
        free = down + 13
        if down > HEIGHT - _BOTTOM + 4:
            break
        at, name = frame.x(left), _short(title.split(":")[0])
        side = "end" if at > WIDTH / 2 else "start"
        across = at - 8 if side == "end" else at + 8
        labels.append(f'<text class="name" x="{across:.1f}" y="{down:.1f}" text-anchor="{side}">{escape(name)}</text>')
    return labels


def _svg(parts: Sequence[str], label: str, height: int = HEIGHT) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def _range(values: Sequence[float], margin: float = 0.0) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= abs(high) * 1e-9:
        step = abs(high) * 0.05 or 0.5
        return low - step, high + step
    room = (high - low) * margin
    return low - room, high + room


def _thinned(pairs: Sequence[tuple[float, float]], most: int = 500) -> Sequence[tuple[float, float]]:
    """At most `most` points of a curve, the last one among them."""
    step = -(-len(pairs) // most) if pairs else 1
    return [*pairs[::step], *pairs[-1:]] if step > 1 else pairs


def _short(name: str, room: int = 22) -> str:
    return name if len(name) <= room else f"{name[: room - 1]}…"
