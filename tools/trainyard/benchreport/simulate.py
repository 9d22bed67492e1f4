"""How often bench-report finds what it must, and how often it cries wolf: over histories drawn from measured noise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainyard.benchreport.judged import CLUSTER_TARGET, NODE_TARGET, beside_others, judged
from trainyard.benchreport.shift import Array, goodness, matrix, noise_of, runs_needed
from trainyard.errors import InputError

HEALTHY_SPREAD = 0.05
"""Healthy GPUs of one node differ by so much (ml-engineering, accelerator chapter)."""


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
    nodes: int
    baseline: int
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
    baseline = _baseline(noise.node, nodes, NODE_TARGET)
    found = false = asked = 0
    for _ in range(trials):
        level = random.uniform(-HEALTHY_SPREAD / 2, HEALTHY_SPREAD / 2, nodes)
        before = beside_others(_drawn(random, noise, level, baseline))
        runs = _asked(before, nodes, NODE_TARGET, baseline)
        healthy = _drawn(random, noise, level, runs)
        sick, slow = healthy.copy(), int(random.integers(nodes))
        sick[:, slow] += np.log1p(-NODE_TARGET)
        slower = judged(before, beside_others(sick), NODE_TARGET).slower
        found += bool(slower[slow])
        quiet = not judged(before, beside_others(healthy), NODE_TARGET).slower.any()
        false += not quiet or bool(np.delete(slower, slow).any())
        asked += runs
    return Outcome(float(noise.node.std()), nodes, baseline, asked / trials, found / trials, false / trials)


def cluster_trials(noise: Noise, measures: int, trials: int, seed: int) -> Outcome:
    """The whole cluster loses CLUSTER_TARGET after the baseline, in one of `measures` measures."""
    random = np.random.default_rng(seed)
    baseline = _baseline(noise.step, measures, CLUSTER_TARGET)
    found = false = asked = 0
    for _ in range(trials):
        before = random.choice(noise.step, (baseline, measures))
        runs = _asked(before, measures, CLUSTER_TARGET, baseline)
        after = random.choice(noise.step, (runs, measures))
        false += bool(judged(before, after, CLUSTER_TARGET).slower.any())
        after[:, 0] += np.log1p(-CLUSTER_TARGET)
        found += bool(judged(before, after, CLUSTER_TARGET).slower[0])
        asked += runs
    return Outcome(float(noise.step.std()), measures, baseline, asked / trials, found / trials, false / trials)


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


def _baseline(noise: Array, units: int, target: float) -> int:
    """Baseline runs to lock: half as many again as the noise asks for at equal numbers."""
    runs = runs_needed(float(noise_of(noise[:, None])[0][0]), units, target, None)
    if runs is None:
        raise InputError("is noisier than any number of runs makes up for", "noise")
    return max(8, runs + runs // 2)


def _asked(before: Array, units: int, target: float, baseline: int) -> int:
    noise, prior = noise_of(before)
    runs = runs_needed(float(noise.max()), units, target, baseline, prior)
    return max(3, runs if runs is not None else 2 * baseline)
