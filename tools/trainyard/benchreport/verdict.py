"""The verdict on the runs that came after a baseline was locked."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from trainyard.benchreport.measure import (
    CLUSTER_TARGET,
    NODE_TARGET,
    beside_others,
    judged_cluster,
    judged_nodes,
    needed,
)
from trainyard.benchreport.runs import Baseline, Fingerprint, Run, differences
from trainyard.benchreport.shift import Array, goodness, matrix

FEWEST_BASELINE = 3
FEWEST_CANDIDATE = 2
MEDIAN = "median node: "
"""What the name of a measure of nodes is preceded by where it stands for the cluster."""
NEW_NODE_TARGET = 0.10
"""How far below the other nodes one without a baseline must be: healthy ones differ by 5 %."""


class State(Enum):
    """What a report comes to; its value is the exit code."""

    CLEAN = 0
    SLOWER = 1
    NOT_COMPARABLE = 4
    TOO_FEW = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One unit in one measure: before, after, and what chance would make of it."""

    measure: str
    node: str
    """Empty for the cluster."""
    before: float
    after: float
    change: float
    """Of speed: -0.05 is 5 % slower, whether the measure is a time or a rate. A node's is beside the other nodes."""
    p: float
    adjusted: float
    noise: float
    slower: bool
    own: bool = True
    """False for a node without a baseline of its own, which is put beside the others alone."""


@dataclass(frozen=True, slots=True)
class Need:
    """How many runs it takes to find a loss of `target` in a measure."""

    measure: str
    nodes: bool
    target: float
    noise: float
    baseline: int
    candidate: int
    needed: int | None
    """Candidate runs; None where no number makes up for so few runs in the baseline."""
    larger: int
    """Runs of a larger baseline, where this one is too small."""

    @property
    def met(self) -> bool:
        return self.needed is not None and self.needed <= self.candidate


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is slower, and what could not be told."""

    state: State
    differences: tuple[tuple[str, str], ...]
    """A run's name, and one thing in which it differs from the baseline."""
    cluster: tuple[Row, ...]
    nodes: tuple[Row, ...]
    needs: tuple[Need, ...]
    unjudged: tuple[str, ...]
    """Nodes that are not in all of the runs."""

    @property
    def findings(self) -> list[Row]:
        """What is slower: the cluster first, then nodes, the worst first."""
        return [row for row in (*self.cluster, *sorted(self.nodes, key=lambda row: row.change)) if row.slower]


def verdict(baseline: Baseline, runs: Sequence[tuple[Run, Fingerprint]], only: Sequence[str] = ()) -> Verdict:
    """Compares runs with a baseline, in all measures that both have, or in those that `only` names."""
    differing = tuple((run.name, line) for run, there in runs for line in differences(baseline.fingerprint, there))
    if differing:
        return Verdict(State.NOT_COMPARABLE, differing, (), (), (), ())
    before, after = list(baseline.runs), [run for run, _ in runs]
    if len(before) < FEWEST_BASELINE or len(after) < FEWEST_CANDIDATE:
        return Verdict(State.TOO_FEW, (), (), (), (), ())
    everything = [*before, *after]
    alike = set.intersection(*(set(run.nodes) for run in everything))
    new = set.intersection(*(set(run.nodes) for run in after)) - {node for run in before for node in run.nodes}
    known = sorted(alike)
    measures = _node_measures(everything, known, only)
    cluster, cluster_needs = _cluster(before, after, known, measures, only)
    nodes, node_needs = _nodes(before, after, known, measures)
    nodes += _new_nodes(after, sorted(new), measures)
    needs = (*cluster_needs, *node_needs)
    unjudged = {node for run in everything for node in run.nodes} - alike - new
    state = State.CLEAN if needs and all(need.met for need in needs) else State.TOO_FEW
    if any(row.slower for row in (*cluster, *nodes)):
        state = State.SLOWER
    return Verdict(state, (), tuple(cluster), tuple(nodes), needs, tuple(sorted(unjudged)))


def of_node(run: Run, node: str, measure: str) -> float:
    """A node is as fast as the slowest of its ranks: the others wait for it."""
    values = run.nodes[node].measures[measure]
    return values[int(np.argmin(goodness(measure, np.asarray(values))))]


def cluster_measures(runs: Sequence[Run]) -> list[str]:
    """Measures of the cluster that all runs have."""
    return sorted(set.intersection(*(set(run.measures) for run in runs)))


def value_of(run: Run, measure: str) -> float:
    """A measure of the cluster, or of its median node."""
    if not measure.startswith(MEDIAN):
        return run.measures[measure]
    name = measure.removeprefix(MEDIAN)
    return float(np.median([of_node(run, node, name) for node in run.nodes if name in run.nodes[node].measures]))


def _wanted(measure: str, only: Sequence[str]) -> bool:
    return not only or measure in only


def _node_measures(runs: Sequence[Run], nodes: Sequence[str], only: Sequence[str]) -> list[str]:
    """Measures that all of the nodes have in all runs."""
    each = [set(run.nodes[node].measures) for run in runs for node in nodes]
    return sorted(measure for measure in set.intersection(*each) if _wanted(measure, only)) if each else []


def _table(runs: Sequence[Run], nodes: Sequence[str], measure: str) -> Array:
    return goodness(measure, matrix([[of_node(run, node, measure) for node in nodes] for run in runs]))


def _cluster(
    before: Sequence[Run], after: Sequence[Run], nodes: Sequence[str], of_nodes: Sequence[str], only: Sequence[str]
) -> tuple[list[Row], list[Need]]:
    """The measures of the cluster, and the median node of each of the nodes' measures."""
    names = [name for name in cluster_measures([*before, *after]) if _wanted(name, only)]
    columns = [
        tuple(goodness(name, matrix([[run.measures[name]] for run in runs]))[:, 0] for runs in (before, after))
        for name in names
    ]
    columns += [
        tuple(np.median(_table(runs, nodes, name), axis=1) for runs in (before, after)) for name in of_nodes if nodes
    ]
    names += [MEDIAN + name for name in of_nodes if nodes]
    if not names:
        return [], []
    there, here = (np.stack([column[side] for column in columns], axis=1) for side in (0, 1))
    found = judged_cluster(there, here)
    rows = [
        Row(
            name,
            "",
            *_ends(name, there[:, unit], here[:, unit]),
            change=float(found.shift.change[unit]),
            p=float(found.shift.p[unit]),
            adjusted=float(found.shift.adjusted[unit]),
            noise=float(found.shift.noise[unit]),
            slower=bool(found.slower[unit]),
        )
        for unit, name in enumerate(names)
    ]
    needs = [_need(name, there[:, [unit]], len(names), len(after), nodes=False) for unit, name in enumerate(names)]
    return rows, needs


def _nodes(
    before: Sequence[Run], after: Sequence[Run], nodes: Sequence[str], measures: Sequence[str]
) -> tuple[list[Row], list[Need]]:
    """Each node beside the others against its own baseline. Of a single node the cluster's measures say all."""
    if len(nodes) < 2:
        return [], []
    rows, needs = [], []
    for measure in measures:
        there, here = _table(before, nodes, measure), _table(after, nodes, measure)
        beside = beside_others(there)
        found = judged_nodes(beside, beside_others(here), len(measures))
        rows += [
            Row(
                measure,
                node,
                *_ends(measure, there[:, unit], here[:, unit]),
                change=float(found.shift.change[unit]),
                p=float(found.shift.p[unit]),
                adjusted=min(1.0, float(found.shift.adjusted[unit]) * len(measures)),
                noise=float(found.shift.noise[unit]),
                slower=bool(found.slower[unit]),
            )
            for unit, node in enumerate(nodes)
        ]
        needs.append(_need(measure, beside, len(nodes) * len(measures), len(after), nodes=True))
    return rows, needs


def _new_nodes(after: Sequence[Run], nodes: Sequence[str], measures: Sequence[str]) -> list[Row]:
    """Nodes that no run of the baseline had, beside all others."""
    everyone = sorted(set.intersection(*(set(run.nodes) for run in after)))
    rows = []
    for measure in measures if len(everyone) > len(nodes) else ():
        table = _table(after, everyone, measure)
        beside = beside_others(table).mean(axis=0)
        for node in nodes:
            unit = everyone.index(node)
            change = float(np.expm1(beside[unit]))
            at, usual = table[:, unit], np.median(table, axis=1)
            rows.append(
                Row(
                    measure,
                    node,
                    *_ends(measure, usual, at),
                    change=change,
                    p=float("nan"),
                    adjusted=float("nan"),
                    noise=float(beside_others(table)[:, unit].std()),
                    slower=change <= -NEW_NODE_TARGET,
                    own=False,
                )
            )
    return rows


def _ends(measure: str, there: Array, here: Array) -> tuple[float, float]:
    """Medians before and after, in the measure's own unit."""
    sign = goodness(measure, np.asarray([np.e]))[0]
    return float(np.exp(sign * np.median(there))), float(np.exp(sign * np.median(here)))


def _need(measure: str, there: Array, units: int, candidate: int, *, nodes: bool) -> Need:
    noise, asked, larger = needed(there, units, nodes=nodes)
    return Need(measure, nodes, NODE_TARGET if nodes else CLUSTER_TARGET, noise, len(there), candidate, asked, larger)
