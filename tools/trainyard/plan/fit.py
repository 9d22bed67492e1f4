"""Fits the constants to published runs, and says how well they hold for a source that was left out."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainyard.plan.constants import NAMES, Constants, changed
from trainyard.plan.published import PublishedRun, chosen
from trainyard.plan.run import Run
from trainyard.plan.step import step

Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class FitResult:
    """The outcome of a fit."""

    constants: Constants
    loss: float


@dataclass(frozen=True, slots=True)
class Sample:
    """A row with the layout that is taken for it, for as long as the constants move little."""

    run: Run
    metric: str
    measured: float
    weight: float


def forecast(item: PublishedRun, constants: Constants) -> float:
    """What the model says of a row, in the row's metric."""
    run = chosen(item, constants)
    return in_metric(item.metric, run, step(run, constants).total)


def in_metric(metric: str, run: Run, seconds: float) -> float:
    """A step's seconds as iteration_s, tokens_s or tokens_s_gpu."""
    if metric == "iteration_s":
        return seconds
    return run.tokens / seconds / (run.gpus if metric == "tokens_s_gpu" else 1)


def samples(items: Sequence[PublishedRun], constants: Constants) -> list[Sample]:
    """Rows with their layouts; a source of n rows weighs sqrt(n)."""
    count: dict[str, int] = {}
    for item in items:
        count[item.source] = count.get(item.source, 0) + 1
    return [
        Sample(chosen(item, constants), item.metric, item.measured or 0.0, 1 / math.sqrt(count[item.source]))
        for item in items
    ]


def loss(rows: Sequence[Sample], constants: Constants, prior: Constants, bounds: Bounds) -> float:
    """Mean |log(forecast / measured)|, and a small pull to the prior."""
    total = weights = 0.0
    for row in rows:
        said = in_metric(row.metric, row.run, step(row.run, constants).total)
        total += row.weight * abs(math.log(said / row.measured))
        weights += row.weight
    pull = 0.0
    for name in NAMES:
        low, high = bounds[name]
        pull += (math.log(getattr(constants, name) / getattr(prior, name)) / math.log(high / low)) ** 2
    return total / weights + PULL * pull


PULL = 0.002
"""What it costs to move a constant over its whole range: enough to hold one that no row asks for."""


def fit(
    items: Sequence[PublishedRun], start: Constants, prior: Constants, bounds: Bounds, sweeps: int = 8
) -> FitResult:
    """Coordinate descent within bounds: for each constant in turn, the best of finer and finer steps."""
    best, lowest, width = start, 0.0, 0.2
    for _ in range(sweeps):
        rows = samples(items, best)
        lowest = loss(rows, best, prior, bounds)
        for name in NAMES:
            low, high = bounds[name]
            for factor in (1, -1):
                moved = True
                while moved:
                    here = getattr(best, name)
                    value = min(high, max(low, here * (high / low) ** (factor * width)))
                    trial = changed(best, {name: value})
                    found = loss(rows, trial, prior, bounds)
                    moved = found < lowest - 1e-7 and value != here
                    if moved:
                        best, lowest = trial, found
        width *= 0.6
    return FitResult(best, lowest)


def without(items: Iterable[PublishedRun], source: str) -> list[PublishedRun]:
    """Rows of all other sources."""
    return [item for item in items if item.source != source]
