"""Whether two sets of runs differ: the change, its p-value, and how many runs a change must be seen in.

Everything is on logarithms, so that a change is a ratio and noise is a part of the value. Means are trimmed (Yuen
1974): one run that something else disturbed moves neither the mean nor its error. Each unit's variance is drawn towards
that of all units (Smyth 2004, doi 10.2202/1544-6115.1027), since a handful of runs tells little of one node's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]

ALPHA = 0.002
"""Chance of a false alarm over all cluster measures, and again over all nodes. Below 1 % together, since the noise of
real runs has longer tails than the t-distribution's."""
POWER = 0.97
"""Chance of a find that runs are asked for; 95 % are promised."""
TRIM = 0.3
"""Part of the runs left out at each end: one of four, two of eight."""
CAUTION = 0.9
"""Confidence with which the noise is no larger than what the number of runs is computed from."""
MOST_RUNS = 400
MOST_FREEDOM = 1e6
"""Degrees of freedom that stand for infinitely many."""
TINY = 1e-18
"""A variance where all runs are alike."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What changed, a value a unit. `change` is the ratio minus 1, negative where slower."""

    change: Array
    p: Array
    """One-sided: a healthy unit would look at least so slow."""
    adjusted: Array
    """`p` after Holm's correction over all units."""
    noise: Array
    """Standard deviation of one run, as a part of the value."""
    prior: float
    """Degrees of freedom that the other units lend to the variance of each."""


def better_is_lower(measure: str) -> bool:
    """True for times; speeds, bandwidths and rates are better the higher they are."""
    return measure.endswith("seconds") and not measure.endswith("_per_second")


def goodness(measure: str, values: Array) -> Array:
    """Logarithms of a measure, turned so that lower is worse."""
    logs = np.log(values)
    return -logs if better_is_lower(measure) else logs


def compare(baseline: Array, candidate: Array) -> Shift:
    """Compares runs (rows) of units (columns), in logarithms turned so that lower is worse.

    Two rows of each at least. The statistic of a unit is that of scipy.stats.ttest_ind(trim=TRIM), before its variance
    is drawn towards the others'.
    """
    (low, low_squares), (high, high_squares) = _trimmed(baseline), _trimmed(candidate)
    fewer, more = _kept(len(baseline)), _kept(len(candidate))
    freedom = fewer + more - 2
    variances = np.maximum((low_squares + high_squares) / freedom * (1 / fewer + 1 / more), TINY)
    prior, moderated = _moderated(variances, freedom)
    difference = high - low
    p = special.stdtr(min(freedom + prior, MOST_FREEDOM), difference / np.sqrt(moderated))
    noise = np.sqrt(moderated / (1 / len(baseline) + 1 / len(candidate)))
    return Shift(np.expm1(difference), p, holm(p), noise, prior)


def _trimmed(runs: Array) -> tuple[Array, Array]:
    """Of each unit, the trimmed mean and the sum of squares of the winsorized runs about their mean."""
    cut = int(TRIM * len(runs))
    ordered = np.sort(runs, axis=0)
    inner = np.clip(ordered, ordered[cut], ordered[len(runs) - cut - 1])
    squares = ((inner - inner.mean(axis=0)) ** 2).sum(axis=0)
    return ordered[cut : len(runs) - cut].mean(axis=0), squares


def _kept(runs: int) -> int:
    """Runs that trimming leaves."""
    return runs - 2 * int(TRIM * runs)


def holm(p: Array) -> Array:
    """p-values that stay below a level by chance no more often than one test would (Holm 1979)."""
    order = np.argsort(p)
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def _moderated(variances: Array, freedom: float) -> tuple[float, Array]:
    """Variances drawn towards what the units share, and the degrees of freedom that this lends, by moments of logs."""
    if len(variances) < 3:
        return 0.0, variances
    logs = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = float(np.var(logs, ddof=1) - special.polygamma(1, freedom / 2))
    if excess <= 0:
        return np.inf, np.full_like(variances, np.exp(np.mean(logs)))
    half = optimize.brentq(lambda value: special.polygamma(1, value) - excess, 1e-3, 1e7)
    prior, shared = 2 * half, np.exp(np.mean(logs) + special.digamma(half) - np.log(half))
    return prior, (prior * shared + freedom * variances) / (prior + freedom)


def noise_of(runs: Array) -> tuple[Array, float]:
    """Standard deviation of one run of each unit, as a careful reader takes it, and the shared degrees of freedom.

    `runs` is as in `compare`, three rows at least: trimmed as there, and raised to what it stays below with CAUTION.
    """
    kept = _kept(len(runs))
    freedom = kept - 1
    _, squares = _trimmed(runs)
    prior, moderated = _moderated(np.maximum(squares / freedom / kept * len(runs), TINY), freedom)
    total = min(freedom + prior, MOST_FREEDOM)
    return np.sqrt(moderated * total / special.chdtri(total, CAUTION)), prior


def power(noise: float, units: int, target: float, baseline: int, candidate: int, prior: float) -> float:
    """Chance that a change of `target` (0.05: 5 % slower) is found: half of it seen, at ALPHA over the units."""
    freedom = min(_kept(baseline) + _kept(candidate) - 2 + prior, MOST_FREEDOM)
    if freedom < 1:
        return 0.0
    error = noise * float(np.sqrt(1 / baseline + 1 / candidate))
    critical = max(-special.stdtrit(freedom, ALPHA / units), -np.log1p(-target / 2) / error)
    shifted = -np.log1p(-target) / error
    missed = special.nctdtr(freedom, shifted, critical)  # not a number where the shift is far beyond every doubt
    return float(1 - missed) if np.isfinite(missed) else float(shifted > critical)


def runs_needed(
    noise: float, units: int, target: float, baseline: int | None, prior: float = 0.0, fewest: int = 2
) -> int | None:
    """Candidate runs, `fewest` at least, that find `target` with POWER; None where even MOST_RUNS would not.

    With `baseline` None, as many runs of the baseline are taken as of the candidate.
    """

    def enough(runs: int) -> bool:
        there = runs if baseline is None else baseline
        return power(noise, units, target, there, runs, prior) >= POWER

    if not enough(MOST_RUNS):
        return None
    few, many = fewest - 1, MOST_RUNS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def others(values: Array) -> Array:
    """Of each run (row) and node (column), the median over the other nodes; 0 where there is no other."""
    nodes = values.shape[1]
    if nodes == 1:
        return np.zeros_like(values)
    order = np.argsort(values, axis=1)
    ranks = np.argsort(order, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    low, high = (nodes - 2) // 2, (nodes - 1) // 2
    rows = np.arange(len(values))[:, None]
    # the middle of the others, once the node itself is taken out of the row
    picked: list[Any] = [ordered[rows, np.where(ranks <= middle, middle + 1, middle)] for middle in (low, high)]
    return np.asarray((picked[0] + picked[1]) / 2, dtype=np.float64)


def matrix(rows: Sequence[Sequence[float]]) -> Array:
    """Rows of numbers as an array."""
    return np.asarray(rows, dtype=np.float64)
