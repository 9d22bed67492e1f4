"""What a rehearsal sees of the training in it: ranks that joined, steps, losses, checkpoints that were read."""

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.rehearse.blame import Blame
from trainyard.rehearse.open_beneath import folder, read
from trainyard.rehearse.steps import EPOCHS, object_in, step_in
from trainyard.rehearse.worlds import JoinedRank

_RESUMED = re.compile(r"checkpoint: resumed from step (\d+)")
_DIGITS = re.compile(r"\d+")
_MOST_NOTES = 10_000
_MOST_LINES = 50_000
_MOST_STEPS = 200_000
_REPEATS = 3
"""From which time on the same line, numbers apart, is no sign of life any more."""


@dataclass(slots=True)
class RunProgress:
    """What one run came to, as far as its pods have told."""

    folder: Path
    """Where ranks leave their notes."""
    form: re.Pattern[str] | None = None
    """How a line tells of a step, where the usual forms are not meant."""
    began: float = field(default_factory=time.time)
    steps: dict[int, float | None] = field(default_factory=dict)
    """Loss by step, as the first pod that tells of it has it; None where it tells none."""
    taken: list[tuple[float, int]] = field(default_factory=list)
    """When a step was told, and which, in that order."""
    by_pod: dict[str, int] = field(default_factory=dict)
    """How many steps each pod has told of."""
    sure: int = EPOCHS
    """The surest form in which a step was told: others count no more."""
    resumed_from: list[int] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's last line."""
    alive: float = field(default_factory=time.monotonic)
    """When the run last showed a sign of life."""
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often each pod has printed a line, numbers apart."""
    notes: int = 0
    blame: Blame = field(default_factory=Blame)

    def line(self, pod: str, text: str) -> None:
        """One line of a pod's output."""
        key = pod, _DIGITS.sub("0", text)
        times = self.seen.get(key, 0) + 1
        if times > 1 or len(self.seen) < _MOST_LINES:
            self.seen[key] = times
        if times <= _REPEATS:
            self.alive = time.monotonic()
        self.blame.line(pod, text)
        if (found := _RESUMED.search(text)) is not None:
            self.resumed_from.append(int(found[1]))
        self._step(pod, text)
        content = object_in(text)
        if content is not None and "world_size" in content and "step" not in content:
            self.result = content
            if isinstance(resumed := content.get("resumed_from"), int):
                self.resumed_from.append(resumed)

    def _step(self, pod: str, text: str) -> None:
        step = step_in(text, self.form)
        if step is None or len(self.taken) >= _MOST_STEPS:
            return
        self.alive = time.monotonic()
        if step.number is None:
            if self.last is not None:
                self.steps[self.last] = step.loss
            return
        if step.sure < self.sure:
            return
        if step.sure > self.sure:
            self.steps, self.taken, self.by_pod, self.sure = {}, [], {}, step.sure
        if step.loss is not None or step.number not in self.steps:
            self.steps[step.number] = step.loss
        self.taken.append((time.monotonic(), step.number))
        self.by_pod[pod] = self.by_pod.get(pod, 0) + 1

    @property
    def last(self) -> int | None:
        """The step that was told last; None where none was."""
        return self.taken[-1][1] if self.taken else None

    @property
    def first(self) -> int | None:
        """The step that was told first."""
        return self.taken[0][1] if self.taken else None

    @property
    def reached(self) -> int:
        """The furthest step; 0 where none was told."""
        return max(self.steps, default=0)

    @property
    def losses(self) -> dict[int, float]:
        """Losses by step, where they were told."""
        return {step: loss for step, loss in self.steps.items() if loss is not None}

    def since(self, moment: float) -> int:
        """How many steps were told since a moment."""
        return sum(at > moment for at, _ in self.taken)

    def came_back_to(self, moment: float) -> int | None:
        """The first step after a moment that had been taken before; None where there is none."""
        furthest = 0
        for at, step in self.taken:
            if at > moment and step <= furthest:
                return step
            furthest = max(furthest, step)
        return None

    def joined(self) -> tuple[JoinedRank, ...]:
        """What ranks have left each time that they joined, in that order."""
        found = []
        with folder(self.folder) as notes:
            for name in [name for name in os.listdir(notes) if name.startswith("joined-")][:_MOST_NOTES]:
                with suppress(ValueError, KeyError, TypeError, RecursionError, OSError):
                    note = json.loads(read(notes, name))
                    rank, world, at = int(note["rank"]), int(note["world"]), float(note["joined"])
                    found.append(JoinedRank(str(note["pod"]), rank, world, str(note["group"]), at))
        return tuple(sorted(found, key=lambda each: each.at))

    def listen(self) -> None:
        """Count the notes, which are signs of life."""
        notes = sum(name.startswith("jo") for name in os.listdir(self.folder))
        if notes != self.notes:
            self.notes, self.alive = notes, time.monotonic()
