"""When something changed: points in a history of runs before and after which a measure has different levels."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainyard.benchreport.runs import Run
from trainyard.benchreport.shift import Array, compare, goodness, matrix
from trainyard.benchreport.verdict import cluster_measures

FEWEST = 8
SEGMENT = 3
"""Runs on each side of a change."""
SMALLEST = 0.025
LEVEL = 0.01
"""Chance that a steady history shows a change in a measure."""


@dataclass(frozen=True, slots=True)
class Change:
    """A measure changed with a run: of speed, negative where slower; p after correction over all places."""

    measure: str
    at: int
    run: str
    change: float
    p: float


def changes(runs: Sequence[Run]) -> list[Change]:
    """Changes of the cluster's measures over runs in the order of time; none in fewer than FEWEST runs."""
    if len(runs) < FEWEST:
        return []
    found = []
    for measure in cluster_measures(runs):
        values = goodness(measure, matrix([[run.measures[measure]] for run in runs]))
        for at, change, p in change_points(values):
            found.append(Change(measure, at, runs[at].name, change, p))
    return found


def change_points(values: Array) -> list[tuple[int, float, float]]:
    """First run of each new level (rows of one column, logarithms), its change and its p-value.

    Pelt (Killick et al. 2012) proposes; a trimmed t-test of both sides, corrected for every place that a change could
    have been at, confirms.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ruptures  # takes longer than all other imports, and only long histories need it

    count = len(values)
    steps = np.abs(np.diff(values[:, 0]))
    noise = max(float(np.median(steps)) / 0.6745 / np.sqrt(2), 1e-9)
    proposed = ruptures.Pelt(model="l2", min_size=SEGMENT, jump=1).fit(values / noise).predict(pen=3 * np.log(count))
    ends = [0, *(int(end) for end in proposed)]
    confirmed = []
    for start, at, end in zip(ends, ends[1:], ends[2:], strict=False):
        shift = compare(values[start:at], values[at:end])
        p = min(1.0, 2 * min(float(shift.p[0]), 1 - float(shift.p[0])) * (count - 1))
        if p < LEVEL and abs(shift.change[0]) >= SMALLEST:
            confirmed.append((at, float(shift.change[0]), p))
    return confirmed
