"""Which of several ways to run the same job."""

from collections.abc import Sequence

from trainyard.plan import memory
from trainyard.plan.constants import Constants
from trainyard.plan.run import Run
from trainyard.plan.step import step


def feasible(candidates: Sequence[Run]) -> tuple[Run, ...]:
    """Those that fit into memory; where none does, the one that needs least."""
    if len(candidates) <= 1:
        return tuple(candidates)
    return tuple(run for run in candidates if memory.fits(run)) or (min(candidates, key=memory.total),)


def choose(candidates: Sequence[Run], constants: Constants) -> Run:
    """The fastest of feasible ones."""
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda run: step(run, constants).total / run.tokens)
