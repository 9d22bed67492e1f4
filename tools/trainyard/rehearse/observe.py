"""What a rehearsal sees of the training in it: ranks that joined, steps, losses, checkpoints that were read."""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.rehearse.beneath import folder, read

_RESUMED = re.compile(r"checkpoint: resumed from step (\d+)")
_ERROR = re.compile(
    r"(?:^|[\]\s|])(?:error|fatal|[A-Za-z_.]*(?:Error|Exception|Exit)|[a-z]+: .*(?:not found|No such file))\b.*"
)
_HINT = re.compile(r"not enough|cannot |could not|unable to|denied|refused|not found|No such")
_CONSEQUENCE = ("ChildFailedError", "another rank is gone", "SignalException", "Connection closed by peer", "PeerLost")
_DIGITS = re.compile(r"\d+")
_MOST_ERRORS = 40
_MOST_NOTES = 10_000
_REPEATS = 3
"""From which time on the same line, numbers apart, is no sign of life any more."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A rank that joined the process group of PyTorch."""

    rank: int
    world: int
    seconds: float
    """How long it waited for the others."""
    at: float
    """When it had joined, in seconds since 1970."""


@dataclass(slots=True)
class Observed:
    """What one run came to, as far as its pods have told."""

    folder: Path
    """Where ranks leave their notes."""
    began: float = field(default_factory=time.time)
    losses: dict[int, float] = field(default_factory=dict)
    """Loss by step, as rank 0 prints it."""
    resumed_from: list[int] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's last line."""
    alive: float = field(default_factory=time.monotonic)
    """When the run last showed a sign of life."""
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    notes: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)
    """Pod and text of the first lines that name an error."""
    hints: list[tuple[str, str]] = field(default_factory=list)
    """The same of lines that only sound like one."""
    last: dict[str, str] = field(default_factory=dict)
    """The last line of each pod."""
    steps_at: dict[int, float] = field(default_factory=dict)

    def line(self, pod: str, text: str) -> None:
        """One line of a pod's output."""
        key = pod, _DIGITS.sub("0", text)
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] <= _REPEATS:
            self.alive = time.monotonic()
        if len(self.errors) < _MOST_ERRORS and _ERROR.search(text) and not any(word in text for word in _CONSEQUENCE):
            self.errors.append((pod, text.strip()))
        elif len(self.hints) < _MOST_ERRORS and _HINT.search(text):
            self.hints.append((pod, text.strip()))
        if text.strip(" -="):
            self.last[pod] = text.strip()
        if (found := _RESUMED.search(text)) is not None:
            self.resumed_from.append(int(found[1]))
        start = text.find("{")
        if start < 0:
            return
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            content = json.loads(text[start:])
            if "step" in content and "loss" in content:
                self.losses[int(content["step"])] = float(content["loss"])
                self.steps_at[int(content["step"])] = time.monotonic()
                self.alive = time.monotonic()
            elif "world_size" in content:
                self.result = content
                if content.get("resumed_from") is not None:
                    self.resumed_from.append(int(content["resumed_from"]))

    def blame(self, pods: Sequence[str]) -> tuple[str, str] | None:
        """Of pods that failed the one that first named an error, and its words; None where none said anything."""
        for told in (self.errors, self.hints):
            for pod, text in told:
                if pod in pods:
                    return pod, text
        return next(((pod, self.last[pod]) for pod in pods if pod in self.last), None)

    def joined(self) -> tuple[Joined, ...]:
        """What ranks have left each time that they joined, in that order."""
        found = []
        with folder(self.folder) as notes:
            for name in [name for name in os.listdir(notes) if name.startswith("joined-")][:_MOST_NOTES]:
                with suppress(ValueError, KeyError, TypeError, RecursionError, OSError):
                    note = json.loads(read(notes, name))
                    rank, world = int(note["rank"]), int(note["world"])
                    found.append(Joined(rank, world, note["joined"] - note["began"], float(note["joined"])))
        return tuple(sorted(found, key=lambda each: each.at))

    def listen(self) -> None:
        """Count the notes, which are signs of life."""
        notes = sum(name.startswith("jo") for name in os.listdir(self.folder))
        if notes != self.notes:
            self.notes, self.alive = notes, time.monotonic()
