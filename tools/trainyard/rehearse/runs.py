"""One run of a job's pods, and what it came to."""

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from trainyard.rehearse.chaos import Chaos
from trainyard.rehearse.controllers import controller
from trainyard.rehearse.disk.slow import Save
from trainyard.rehearse.engine import ContainerEnd, Engine, Outcome
from trainyard.rehearse.hang import Stack, stacks
from trainyard.rehearse.network import PodSpot, Waiting
from trainyard.rehearse.observe import RunProgress
from trainyard.rehearse.podplan import PodPlan
from trainyard.rehearse.pods import Place
from trainyard.rehearse.saved import ClaimWrites
from trainyard.rehearse.worlds import JoinedRank
from trainyard.workload.model import Workload

Log = Callable[[str, str, str], None]
"""Told each line: pod, container, text."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the job."""

    outcome: Outcome
    observed: RunProgress
    joined: tuple[JoinedRank, ...] = ()
    """Each time that a rank joined its group."""
    stacks: tuple[Stack, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    chaos: Chaos = field(default_factory=lambda: Chaos([]))
    saves: tuple[Save, ...] = ()
    """Saves onto slow disks."""
    moves: bool = False
    """Whether it took steps until its end."""

    @property
    def failed(self) -> tuple[ContainerEnd, ...]:
        """Pods that ended with an error."""
        return tuple(each for each in self.outcome.pods if any(each.codes.values()) and not each.wound_down)

    @property
    def said(self) -> tuple[str, str] | None:
        """Of the pods that failed the one that first named an error, and its words."""
        return self.observed.blame.of([each.pod for each in self.failed])

    @property
    def ranks(self) -> int:
        """How many ranks have joined, each counted once."""
        return len({each.rank for each in self.joined})

    @property
    def joined_after(self) -> float | None:
        """Seconds from the start until the last rank had joined; None where none has."""
        first: dict[int, float] = {}
        for each in self.joined:
            first.setdefault(each.rank, each.at)
        return max(first.values()) - self.observed.began if first else None

    @property
    def sizes(self) -> tuple[int, ...]:
        """World sizes in the order in which ranks met, one after the other where it changed."""
        return tuple(world for world, _ in groupby(each.world for each in self.joined))

    @property
    def resumed_from(self) -> list[int]:
        """Steps that it went on from: those that the trainer tells, else the one that it came back to after chaos."""
        if self.observed.resumed_from or not self.chaos.done:
            return self.observed.resumed_from
        back, first = self.observed.came_back_to(self.chaos.began), self.observed.first
        return [back - 1] if back is not None and first is not None and back > first else []

    @property
    def began_again(self) -> bool:
        """Whether it was seen to start over from its first step."""
        back, first = self.observed.came_back_to(self.chaos.began), self.observed.first
        return not self.resumed_from and back is not None and first is not None and back <= first


def run(
    workload: Workload,
    plans: Sequence[tuple[PodPlan, PodSpot]],
    place: Place,
    log: Log,
    chaos: Chaos,
    *,
    patience: float,
    timeout: float,
    form: re.Pattern[str] | None = None,
    written: ClaimWrites | None = None,
) -> Run:
    """Run the pods once, from their start to the job's end."""
    notes = place.state / "notes"
    shutil.rmtree(notes)
    notes.mkdir()
    notes.chmod(0o777)
    observed = RunProgress(notes, form)

    def seen(pod: str, container: str, line: str) -> None:
        if pod:
            observed.line(pod, line.removesuffix("\r"))
        log(pod, container, line)

    standing: list[Stack] = []
    waiting: list[Waiting] = []

    def ask(engine: Engine) -> None:
        waiting[:] = place.network.waiting()
        standing.extend(stacks(engine))

    engine = Engine(
        name=workload.object.title,
        plans=plans,
        place=replace(place, log=seen),
        controller=controller(workload),
        observed=observed,
        patience=max(patience, chaos.silence),
        timeout=timeout,
        before_tick=chaos,
        on_hang=ask,
        on_failure=lambda _: None if waiting else waiting.extend(place.network.waiting()),
        written=written,
    )
    outcome = engine.run()
    if written is not None:
        written.look(observed.reached)
    return Run(
        outcome,
        observed,
        observed.joined(),
        tuple(standing),
        tuple(waiting),
        chaos,
        chaos.disks.saves() if chaos.disks is not None else (),
        moves=bool(observed.since(time.monotonic() - patience)),
    )
