"""How often bench-report finds what it must, and how often it cries wolf: over histories drawn from measured noise."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainyard.benchreport.measure import (
    CLUSTER_TARGET,
    NODE_TARGET,
    beside_others,
    judged_cluster,
    judged_nodes,
    needed,
)
from trainyard.benchreport.shift import Array, goodness, matrix
from trainyard.errors import InputError

FEWEST = 8
"""Runs of the first baseline; a larger one is locked where the noise asks for it."""
HEALTHY_SPREAD = 0.05
"""Healthy GPUs of one node differ by so much (ml-engineering, accelerator chapter)."""


class TooNoisy(Exception):
    """No number of runs makes up for the noise."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Deviations of measured runs from their mean, as logarithms: a node beside the others, and what all share."""

    node: Array
    shared: Array
    step: Array


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a number of simulated histories, the parts that were found and that raised a false alarm."""

    noise: float
    units: int
    baseline: float
    candidate: float
    found: float
    false: float


def measured(document: Mapping[str, Any], measure: str = "product_tflops") -> Noise:
    """The noise of bench/noise.py's file: a measure of ranks, and the step time of the run."""
    ranks = goodness(measure, matrix([run[measure] for run in document["runs"]]))
    step = goodness("step_seconds", matrix([[run["step_seconds"]] for run in document["runs"]]))[:, 0]
    shared = ranks.mean(axis=1)
    count = ranks.shape[1]
    beside = (ranks - shared[:, None]) - (ranks - shared[:, None]).mean(axis=0)
    # what is left of n ranks beside their mean has (n - 1) / n of the variance of one
    node = beside.ravel() * np.sqrt(count / (count - 1))
    return Noise(node, shared - shared.mean(), step - step.mean())


def scaled(noise: Noise, to: float) -> Noise:
    """The same shape with another standard deviation of node and step."""
    return Noise(noise.node * to / noise.node.std(), noise.shared, noise.step * to / noise.step.std())


def node_trials(noise: Noise, nodes: int, trials: int, seed: int) -> Outcome:
    """One node of many loses NODE_TARGET after the baseline; healthy nodes differ by HEALTHY_SPREAD all along."""
    random = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(trials):
        level = random.uniform(-HEALTHY_SPREAD / 2, HEALTHY_SPREAD / 2, nodes)
        locked = _locked(partial(_nodes_drawn, random, noise, level), nodes, nodes=True)
        if locked is None:
            tally.refused += 1
            continue
        before, runs = locked
        healthy = _drawn(random, noise, level, runs)
        sick, slow = healthy.copy(), int(random.integers(nodes))
        sick[:, slow] += np.log1p(-NODE_TARGET)
        quiet = not judged_nodes(before, beside_others(healthy)).slower.any()
        slower = judged_nodes(before, beside_others(sick)).slower
        tally.add(len(before), runs, bool(slower[slow]), not quiet or bool(np.delete(slower, slow).any()))
    return tally.outcome(noise.node, nodes)


def cluster_trials(noise: Noise, measures: int, trials: int, seed: int) -> Outcome:
    """The whole cluster loses CLUSTER_TARGET after the baseline, in one of `measures` measures."""
    random = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(trials):
        locked = _locked(lambda count: random.choice(noise.step, (count, measures)), measures, nodes=False)
        if locked is None:
            tally.refused += 1
            continue
        before, runs = locked
        after = random.choice(noise.step, (runs, measures))
        false = bool(judged_cluster(before, after).slower.any())
        after[:, 0] += np.log1p(-CLUSTER_TARGET)
        tally.add(len(before), runs, bool(judged_cluster(before, after).slower[0]), false)
    return tally.outcome(noise.step, measures)


@dataclass(slots=True)
class Tally:
    """Sums over histories."""

    trials: int = 0
    refused: int = 0
    """Histories too noisy for any number of runs."""
    baseline: int = 0
    candidate: int = 0
    found: int = 0
    false: int = 0

    def add(self, baseline: int, candidate: int, found: bool, false: bool) -> None:
        self.trials += 1
        self.baseline += baseline
        self.candidate += candidate
        self.found += found
        self.false += false

    def outcome(self, noise: Array, units: int) -> Outcome:
        if self.refused > self.trials:
            raise TooNoisy
        parts = (self.baseline, self.candidate, self.found, self.false)
        return Outcome(float(noise.std()), units, *(part / self.trials for part in parts))


def load(file: Path) -> Mapping[str, Any]:
    """Measured noise as bench/noise.py writes it. Raises InputError."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        measured(document)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(file)) from None
    except (ValueError, KeyError, TypeError, IndexError):
        raise InputError("is not what bench/noise.py writes", str(file)) from None
    found: Mapping[str, Any] = document
    return found


def _drawn(random: np.random.Generator, noise: Noise, level: Array, runs: int) -> Array:
    """Runs of all nodes: each node's own level, what the run shares, and what is the node's and the run's alone."""
    shared = random.choice(noise.shared, (runs, 1))
    return np.asarray(level + shared + random.choice(noise.node, (runs, len(level))))


def _nodes_drawn(random: np.random.Generator, noise: Noise, level: Array, runs: int) -> Array:
    """Runs of all nodes, each beside the others."""
    return beside_others(_drawn(random, noise, level, runs))


def _locked(drawn: Callable[[int], Array], units: int, *, nodes: bool) -> tuple[Array, int] | None:
    """A baseline as large as bench-report asks for, and how many runs it then asks for; None where it finds no end."""
    runs = FEWEST
    while True:
        before = drawn(runs)
        _, asked, larger = needed(before, units, nodes=nodes)
        if asked is not None and asked <= 2 * runs:
            return before, asked
        if larger <= runs:
            return None
        runs = larger
