"""What a command cost, and a picture of how costs grow with the number of jobs."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command and all that it started took."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system."""
    memory: int
    """MB that the largest of its processes held at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """The costs at one number of jobs, by what was run."""

    jobs: int
    costs: Mapping[str, Cost]


def measured(
    command: Sequence[str | Path], folder: Path, *, cache: Path | None = None, stdin: str = "", fails: bool = False
) -> Cost:
    """Run a command. SystemExit with what it printed where it fails, unless it may."""
    environment = dict(os.environ) if cache is None else {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(stdin.encode() + b"\n")
        given.seek(0)
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], cwd=folder, env=environment, stdin=given, stdout=printed, stderr=printed
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not fails:
            printed.seek(0)
            raise SystemExit(f"{command[0]} ended with {process.returncode}: {printed.read()[-2000:].decode()}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 400, 60, 40
_COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#566573", "#117864")


def plot(rows: Sequence[Row]) -> str:
    """CPU seconds over jobs, both in powers of ten, as SVG."""
    points = {
        name: [(row.jobs, row.costs[name].cpu) for row in rows if name in row.costs]
        for name in dict.fromkeys(name for row in rows for name in row.costs)
    }
    seconds = [y for line in points.values() for _, y in line]
    low, high = 10 ** int(log10(min(seconds)) - 1), 10 ** int(log10(max(seconds)) + 1)
    most = max(10, *(row.jobs for row in rows))

    def x(jobs: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 120) * log10(jobs) / log10(most)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 20) * log10(value / low) / log10(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    tick = low
    while tick <= high:
        parts.append(f'<path d="M{_LEFT} {y(tick):.1f}H{_WIDTH - 120}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
        tick *= 10
    for row in rows:
        parts.append(f'<text x="{x(row.jobs):.1f}" y="{_HEIGHT - 20}" text-anchor="middle">{row.jobs}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 4}">jobs; CPU seconds upwards</text>')
    for (name, line), colour in zip(points.items(), _COLOURS, strict=False):
        path = "L".join(f"{x(jobs):.1f} {y(value):.1f}" for jobs, value in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(jobs):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for jobs, value in line]
        jobs, value = line[-1]
        parts.append(f'<text x="{x(jobs) + 8:.1f}" y="{y(value) + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
