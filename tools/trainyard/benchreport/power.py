"""What docs/benchmarks.md says of power and false alarms: simulated histories over measured noise."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainyard.benchreport.measure import CLUSTER_TARGET, NODE_TARGET
from trainyard.benchreport.simulate import Outcome, TooNoisy, cluster_trials, measured, node_trials, scaled
from trainyard.home import HOME

NOISE = HOME / "tests" / "benchreport" / "noise.json"
NODES = (2, 8, 32, 500)
LEVELS = (0.01, 0.02, 0.03, 0.05)
MEASURES = 6
"""Measures of the cluster that are judged together, any of which could raise an alarm."""
SEED = 20260101


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of history; `noise` is None where the noise is as large as it was measured."""

    what: str
    target: float
    scaled_to: float | None
    outcome: Outcome | None
    """None where the noise is such that no number of runs is enough."""


def outcomes(document: Mapping[str, Any], trials: int, say: Callable[[str], None] = lambda _: None) -> list[Line]:
    """Histories of nodes and of clusters, with the noise as measured and with the same shape at usual sizes."""
    noise = measured(document)
    lines = []
    for level in (None, *LEVELS):
        used = noise if level is None else scaled(noise, level)
        for nodes in NODES:
            say(f"{nodes} nodes, noise {used.node.std():.1%}")
            lines.append(Line(f"1 of {nodes} nodes", NODE_TARGET, level, _tried(node_trials, used, nodes, trials)))
        say(f"cluster, noise {used.step.std():.1%}")
        lines.append(Line("cluster", CLUSTER_TARGET, level, _tried(cluster_trials, used, MEASURES, trials)))
    return lines


def _tried(of: Callable[..., Outcome], *arguments: Any) -> Outcome | None:
    try:
        return of(*arguments, SEED)
    except TooNoisy:
        return None


def as_document(lines: list[Line]) -> list[dict[str, Any]]:
    """The lines for programs."""
    return [asdict(line) for line in lines]


def as_text(lines: list[Line]) -> str:
    """A table in Markdown."""
    rows = [
        "| loses speed | by | noise of a run | baseline runs | runs asked for | found | false alarms |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        size = "as measured" if line.scaled_to is None else f"{line.scaled_to:.0%}"
        if line.outcome is None:
            rows.append(f"| {line.what} | {line.target:.0%} | {size} | more than 400 | | | |")
            continue
        out = line.outcome
        size = f"{out.noise:.1%} (as measured)" if line.scaled_to is None else size
        rows.append(
            f"| {line.what} | {line.target:.0%} | {size} | {out.baseline:.1f} | {out.candidate:.1f} | "
            f"{out.found:.1%} | {out.false:.1%} |"
        )
    return "\n".join(rows) + "\n"
