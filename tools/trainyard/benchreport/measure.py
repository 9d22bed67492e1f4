"""The judgement of one measure: nodes against their own baselines and each other, and the cluster as a whole."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainyard.benchreport.shift import ALPHA, MOST_RUNS, Array, Shift, compare, noise_of, others, runs_needed

CLUSTER_TARGET = 0.10
"""A loss of speed of the whole cluster that must be found."""
NODE_TARGET = 0.05
"""A loss of speed of one node that must be found: all others wait for it."""


CLUSTER_FEWEST = 4
"""Later runs below which nothing is said of the cluster: trimming has to leave out one that was disturbed."""
NODE_FEWEST = 8
"""The same of nodes: of so many, two of one node may well be disturbed."""


NOISY = 0.9
"""The part of units that are no noisier than what runs are asked for by."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison found of units: the cluster's measures, or the nodes in one measure."""

    shift: Shift
    slower: NDArray[np.bool_]
    """Of each unit: the change is at least half of what must be found, and chance is ruled out."""


def judged_cluster(baseline: Array, candidate: Array) -> Verdict:
    """Compares measures of the cluster (columns) over runs (rows), in logarithms turned so that lower is worse."""
    return _judged(baseline, candidate, CLUSTER_TARGET, CLUSTER_FEWEST, 1)


def judged_nodes(baseline: Array, candidate: Array, measures: int = 1) -> Verdict:
    """Compares nodes (columns) beside the others over runs (rows), in logarithms turned so that lower is worse.

    `measures`: in how many measures the same nodes are judged, each of which could raise the alarm.
    """
    return _judged(baseline, candidate, NODE_TARGET, NODE_FEWEST, measures)


def _judged(baseline: Array, candidate: Array, target: float, fewest: int, measures: int) -> Verdict:
    shift = compare(baseline, candidate)
    sure = (shift.adjusted < ALPHA / measures) & (shift.change <= -target / 2)
    return Verdict(shift, sure & (len(candidate) >= fewest))


def beside_others(values: Array) -> Array:
    """Nodes (columns) relative to the median of the other nodes in the same run (row): what all share falls out."""
    return values - others(values)


def needed(runs: Array, units: int, *, nodes: bool) -> tuple[float, int | None, int]:
    """What a baseline (rows: runs, columns: units) asks for, `units` being judged together.

    Noise of one run of a unit, as all but a tenth of them have it at most; later runs that it takes to find the target
    in it, None where no number makes up for so small a baseline; runs that the next baseline should have then, or
    MOST_RUNS where that is the end.
    """
    target, fewest = (NODE_TARGET, NODE_FEWEST) if nodes else (CLUSTER_TARGET, CLUSTER_FEWEST)
    noise, prior = noise_of(runs)
    worst, there = float(np.quantile(noise, NOISY)), len(runs)
    asked = runs_needed(worst, units, target, there, prior, fewest)
    equal = runs_needed(worst, units, target, None, 0.0, fewest)
    # few runs overstate the noise, so the next baseline is twice as large at most, and says anew
    return worst, asked, min(equal or MOST_RUNS, 2 * there, MOST_RUNS)
