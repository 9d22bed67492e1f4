"""The judgement of one measure: nodes against their own baselines and each other, and the cluster as a whole."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainyard.benchreport.shift import ALPHA, Array, Shift, compare, noise_of, others, runs_needed

CLUSTER_TARGET = 0.10
"""A loss of speed of the whole cluster that must be found."""
NODE_TARGET = 0.05
"""A loss of speed of one node that must be found: all others wait for it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a comparison found of units: the cluster's measures, or the nodes in one measure."""

    shift: Shift
    slower: NDArray[np.bool_]
    """Of each unit: the change is at least half of what must be found, and chance is ruled out."""


def judged(baseline: Array, candidate: Array, target: float, measures: int = 1) -> Judged:
    """Compares units (columns) over runs (rows), in logarithms turned so that lower is worse.

    `measures`: in how many measures the same units are judged, each of which could raise the alarm.
    """
    shift = compare(baseline, candidate)
    return Judged(shift, (shift.adjusted < ALPHA / measures) & (shift.change <= -target / 2))


def beside_others(values: Array) -> Array:
    """Nodes (columns) relative to the median of the other nodes in the same run (row): what all share falls out."""
    return values - others(values)


def needed(runs: Array, units: int, target: float, baseline: int | None) -> tuple[float, int | None]:
    """Noise of one run of the noisiest unit, and how many candidate runs it takes to find `target` in it."""
    noise, prior = noise_of(runs)
    worst = float(noise.max())
    return worst, runs_needed(worst, units, target, baseline, prior)
