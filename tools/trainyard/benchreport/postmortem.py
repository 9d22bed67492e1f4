"""What held one run up: which rank on which node, and in which phase of a step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainyard.benchreport.runs import Run, Workload
from trainyard.benchreport.shift import goodness

OWN = ("compute", "data", "checkpoint")
"""Phases in which a node is slow by itself. Communication is where it waits for the others."""
NOTICEABLE = 0.03
"""Part of a step below which a difference is not named."""
HEALTHY = 0.05


@dataclass(frozen=True, slots=True)
class Cause:
    """What one workload waited for. Empty strings where nothing stands out."""

    workload: str
    phase: str
    node: str
    rank: int | None
    seconds: float
    """What it adds to each step."""
    step_seconds: float
    said: str


def postmortem(run: Run, usual: Run | None = None) -> list[Cause]:
    """A cause a workload that says where its time goes; `usual` is a run of the baseline to compare with."""
    found = []
    for name, workload in run.workloads.items():
        if workload.phases:
            found.append(_cause(run, name, workload, usual.workloads.get(name) if usual else None))
    return found


def _cause(run: Run, name: str, workload: Workload, usual: Workload | None) -> Cause:
    nodes = list(workload.phases)
    own = np.array([[workload.phases[node].get(phase, 0.0) for phase in OWN] for node in nodes])
    waits = np.array([workload.phases[node].get("communication", 0.0) for node in nodes])
    step = float(np.median(own.sum(axis=1) + waits))
    typical = np.median(own, axis=0)
    excess = own.sum(axis=1) - float(np.median(own.sum(axis=1)))
    slowest = int(np.argmax(excess))
    if len(nodes) > 1 and excess[slowest] >= NOTICEABLE * step:
        phase = OWN[int(np.argmax(own[slowest] - typical))]
        seconds = float(excess[slowest])
        node = nodes[slowest]
        rank = _rank(run, workload, node) if phase == "compute" else _first(run, node)
        said = (
            f"{node} needs {seconds:.3f} s a step more for {phase} than the median node; the others wait for it "
            f"in their collectives"
        )
        return Cause(name, phase, node, rank, seconds, step, said)
    return _all_alike(name, workload, usual, step)


def _all_alike(name: str, workload: Workload, usual: Workload | None, step: float) -> Cause:
    """No node stands out: the phase that all of them spend more on than in the baseline, or most on."""
    mean = _mean(workload.phases)
    before = _mean(usual.phases) if usual and usual.phases else None
    if before is None:
        phase = max(mean, key=lambda key: mean[key])
        return Cause(name, "", "", None, 0.0, step, f"no node stands out; most of a step is {phase}")
    grown = {phase: mean[phase] - before.get(phase, 0.0) for phase in mean}
    phase = max(grown, key=lambda key: grown[key])
    if grown[phase] < NOTICEABLE * step:
        return Cause(name, "", "", None, 0.0, step, "no node stands out, and every phase is as in the baseline")
    said = f"all nodes alike need {grown[phase]:.3f} s a step more for {phase} than in the baseline"
    return Cause(name, phase, "", None, grown[phase], step, said)


def _mean(phases: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for said in phases.values() for name in said)
    return {name: float(np.mean([said.get(name, 0.0) for said in phases.values()])) for name in names}


def _rank(run: Run, workload: Workload, node: str) -> int | None:
    """The rank of a node that its own measures show, else the one that most steps waited for."""
    there = run.nodes.get(node)
    if there is None:
        return None
    for measure, values in there.measures.items():
        good = goodness(measure, np.asarray(values))
        if len(values) == len(there.ranks) > 1 and float(np.median(good) - good.min()) > HEALTHY:
            return there.ranks[int(np.argmin(good))]
    named = Counter(line["slowest_rank"] for line in workload.steps if line.get("slowest_rank") in there.ranks)
    return named.most_common(1)[0][0] if named else _first(run, node)


def _first(run: Run, node: str) -> int | None:
    """The only rank of a node: where it has several, none is named without a reason."""
    there = run.nodes.get(node)
    return there.ranks[0] if there and len(there.ranks) == 1 else None
