"""The curve of speed over nodes: for a terminal, and as SVG."""

import math
from collections.abc import Sequence
from html import escape

from trainyard.plan.forecast import Forecast, Speed

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(part: float, width: int) -> str:
    """A bar of `part` (0 to 1) of `width` characters, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, part)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def terminal(forecast: Forecast, width: int = 40) -> list[str]:
    """A line a size: nodes, tokens/s, a bar over the ideal, efficiency."""
    lines = []
    for speed in forecast.scaling:
        part = forecast.efficiency(speed)
        note = "" if speed.fits else "  does not fit"
        nodes = speed.run.nodes
        lines.append(
            f"  {nodes:>5} {'nodes' if nodes > 1 else 'node '}  {speed.tokens_per_second:>14,.0f} tokens/s  "
            f"|{bar(part, width)}| {part:4.0%}{note}"
        )
    return lines


def svg(forecast: Forecast) -> str:
    """Tokens/s over nodes beside the ideal line, both axes logarithmic; colours follow the reader's light or dark."""
    speeds = forecast.scaling
    left, top, width, height = 110.0, 56.0, 520.0, 300.0
    most_nodes = max(speed.run.nodes for speed in speeds)
    ideal = [speeds[0].tokens_per_second * speed.run.nodes for speed in speeds]
    low, high = min(speeds[0].tokens_per_second, ideal[0]), max(*ideal, *(s.tokens_per_second for s in speeds))

    def x(nodes: int) -> float:
        return left + (width * math.log(nodes) / math.log(most_nodes) if most_nodes > 1 else width / 2)

    def y(rate: float) -> float:
        return top + height - (height * math.log(rate / low) / math.log(high / low) if high > low else height / 2)

    points = [(x(speed.run.nodes), y(speed.tokens_per_second)) for speed in speeds]
    wished = [(x(speed.run.nodes), y(rate)) for speed, rate in zip(speeds, ideal, strict=True)]
    title = escape(f"{forecast.job.name} on {forecast.job.cluster}: tokens/s over nodes")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 420" role="img" aria-label="{title}">',
        "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.axis{stroke:#8c959f}.ideal{stroke:#8c959f;"
        "stroke-dasharray:4 4;fill:none}.curve{stroke:#0969da;stroke-width:2;fill:none}.dot{fill:#0969da}"
        ".unfit{fill:#cf222e}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.curve{stroke:#58a6ff}"
        ".dot{fill:#58a6ff}.unfit{fill:#ff7b72}}</style>",
        f'<text x="{left:.0f}" y="24">{title}</text>',
        f'<path class="axis" d="M{left:.1f} {top:.1f}V{top + height:.1f}H{left + width:.1f}" fill="none"/>',
        *(
            f'<text x="{left - 8:.0f}" y="{y(rate) + 4:.1f}" text-anchor="end">{rate:,.0f}</text>'
            for rate in dict.fromkeys((low, high))
        ),
        f'<path class="ideal" d="{_path(wished)}"/>',
        f'<path class="curve" d="{_path(points)}"/>',
    ]
    for speed, (across, up) in zip(speeds, points, strict=True):
        parts += _point(speed, across, up, top + height, forecast.efficiency(speed), first=across == left)
    legend = "nodes; dashed: as fast a GPU as on one node"
    legend += "" if all(speed.fits for speed in speeds) else "; red: does not fit into memory"
    parts.append(f'<text x="{left:.0f}" y="{top + height + 52:.0f}">{legend}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _point(speed: Speed, across: float, up: float, bottom: float, part: float, *, first: bool) -> list[str]:
    kind = "dot" if speed.fits else "unfit"
    said = f"{speed.run.nodes} nodes, {speed.tokens_per_second:,.0f} tokens/s, {part:.0%}"
    said += "" if speed.fits else ", does not fit into memory"
    anchor = "start" if first else "middle"
    return [
        f'<circle class="{kind}" cx="{across:.1f}" cy="{up:.1f}" r="4"><title>{escape(said)}</title></circle>',
        # the axis stands where the first one would be centred
        f'<text x="{across + 8 * first:.1f}" y="{up - 10:.1f}" text-anchor="{anchor}">{part:.0%}</text>',
        f'<text x="{across:.1f}" y="{bottom + 20:.1f}" text-anchor="middle">{speed.run.nodes}</text>',
    ]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in points)
