"""What is done to a job on request while it trains, and what it must come back from."""

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.errors import UsageError
from trainyard.objects.quantity import quantity
from trainyard.rehearse.disk.slow import QUIET_SECONDS, SlowDisks, size
from trainyard.rehearse.engine import Engine
from trainyard.rehearse.hang import RANK
from trainyard.rehearse.pods import RunningPod
from trainyard.rehearse.process import Process, below, signal_process, variable
from trainyard.rehearse.saved import ClaimWrites
from trainyard.rehearse.storage import Checkpoints

KINDS = ("kill-rank", "kill-node", "preempt", "cut", "fill-disk", "slow-disk", "lose-node")
DISK_BYTES = 48 << 20
"""Size of the checkpoints' disk that is filled."""
FILLER = ".filler"
"""The file that fills it."""
STEPS_AFTER = 40
"""Steps that follow the one at which it happens, so that it happens before the end."""
ELASTIC_STEPS = 160
"""The same where a world is to shrink and to grow again before the end."""
ELASTIC_SECONDS = 90.0
"""Silence of a world that shrinks: torchrun takes a node for dead after 15 s, and waits for another one for 30 s."""
UNSAVED_STEPS = 10
"""Steps after which a job that has written nothing is told to stop, or its disk slowed, all the same."""
AWAY_STEPS = 10
"""Steps that an elastic job takes without a node that is lost, before the node is back."""
AWAY_SECONDS = 10
"""After how long the node is back where the job needs it."""
COLLECTIVE_SECONDS = 20
"""Timeout of a collective where pods are cut off: the trainer's own is half an hour."""
AGAIN_STEPS = 5
"""Steps after which a job that lost pods is taken to go on, where it repeats none."""
_ENDING = ("kill-node", "kill-rank", "lose-node", "preempt")
"""What ends pods, from which the job comes back before anything else is done to it."""
_LEADERS = ("launcher", "head", "submitter")
_FORM = re.compile(r"(?P<kind>[a-z-]+)(?:=(?P<what>[^@]+))?@(?P<step>\d+)\Z")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that is done."""

    kind: str
    step: int
    """After which step."""
    pods: tuple[str, ...] = ()
    """For `cut`: two pods."""
    claim: str = ""
    """For `slow-disk`: the claim; empty for the one that checkpoints go to."""
    rate: str = ""
    """For `slow-disk`: bytes a second, a quantity as in a manifest."""

    def steps(self, *, elastic: bool) -> int:
        """Steps that a run needs for it to happen before the end."""
        return self.step + (ELASTIC_STEPS if elastic and self.kind == "lose-node" else STEPS_AFTER)

    def saves_only_then(self, reached: int) -> bool:
        """Whether a job that has written nothing so far may do so when this happens."""
        return self.kind in ("preempt", "slow-disk") and reached >= self.step + UNSAVED_STEPS

    @property
    def bytes_per_second(self) -> float:
        """Of a slow disk."""
        return float(quantity(self.rate.removesuffix("B")) or 0)

    @property
    def text(self) -> str:
        """As it was asked for."""
        what = ",".join(self.pods) or ":".join(filter(None, (self.claim, self.rate)))
        return f"{self.kind}{'=' * bool(what)}{what}@{self.step}"


def event(text: str) -> Event:
    """Read `kill-rank@5`, `cut=A,B@5` or `slow-disk=CLAIM:10Mi@5`. UsageError where it is none."""
    match = _FORM.match(text)
    if match is None or match["kind"] not in KINDS:
        raise UsageError(f"--chaos {text}: expected one of {', '.join(KINDS)} and @STEP, as in kill-rank@5")
    kind, step, what = match["kind"], int(match["step"]), match["what"] or ""
    if kind == "slow-disk":
        claim, _, rate = what.rpartition(":")
        found = Event(kind, step, claim=claim, rate=rate)
        if found.bytes_per_second <= 0:
            raise UsageError(f"--chaos {text}: expected the bytes of a second, as in slow-disk=10Mi@5")
        return found
    pods = tuple(what.split(",")) if what else ()
    if (kind == "cut") != (len(pods) == 2):
        raise UsageError(f"--chaos {text}: cut, and no other, names two pods, as in cut=A,B@5")
    if len(set(pods)) < len(pods):
        raise UsageError(f"--chaos {text}: a pod cannot be cut off from itself")
    return Event(kind, step, pods)


@dataclass(frozen=True, slots=True)
class Away:
    """A node that is lost for a while."""

    pod: str
    since: float


@dataclass(slots=True)
class Chaos:
    """The events of a run, each done once."""

    events: list[Event]
    kept: Checkpoints | None = None
    """The trainer's checkpoints: nothing is done before there is one to come back to."""
    written: ClaimWrites | None = None
    """The same of another program: what it has written to its claims; None where it mounts none."""
    disk: Path | None = None
    """The disk that may be filled."""
    disks: SlowDisks | None = None
    """The disks that may be slow."""
    done: list[Event] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    """Steps with a checkpoint when the first of them was done."""
    began: float = 0.0
    """When the first of them was done."""
    ended: float | None = None
    """When pods were ended last; None where the job goes on again."""
    ending: list[tuple[RunningPod, Process]] = field(default_factory=list)
    """What was ended then: until it is gone, what is read of it may have been printed before."""
    cuts: list[Event] = field(default_factory=list)
    """Pods that are cut off from each other."""
    given_up: int = 0
    """How often a container had ended with an error when the last cut was made, or the disk was filled."""
    elastic: bool = False
    """Whether the job can do with fewer nodes."""
    away: Away | None = None
    told: int = 0
    """Saves onto slow disks that the log has told of."""

    @property
    def silence(self) -> float:
        """Seconds without a sign of life that some event is known to cost."""
        shrinks = self.elastic and any(each.kind == "lose-node" for each in self.events)
        return ELASTIC_SECONDS if shrinks else 0.0

    def __call__(self, engine: Engine) -> None:
        """Do what is due."""
        if self.disks is not None:
            self._watch(self.disks, engine)
        if self.away is not None and self._comes_back(self.away, engine):
            engine.say(f"the node of {self.away.pod} is back")
            engine.absent.discard(self.away.pod)
            self.away = None
        reached = engine.observed.reached
        due = [each for each in self.events if each.step <= reached]
        there = self._saved(reached) if due else []
        if due and not there and (self.kept is not None or self.written is not None):
            due = [each for each in due if self.kept is None and each.saves_only_then(reached)]
        for each in sorted(due, key=lambda each: each.step):
            if all(pod.over for pod in engine.pods.values()) or self._is_down(engine):
                break  # it happens to the pods that follow
            self.saved, self.began = self.saved or there, self.began or time.monotonic()
            self.events.remove(each)
            self.done.append(each)
            engine.say(f"chaos: {each.text}")
            hit = self._do(engine, each)
            if each.kind in _ENDING:
                self.ended = time.monotonic()
                self.ending = [(pod, process) for pod in hit for _, process in pod.processes()]
        if engine.given_up > self.given_up:
            self._relent(engine)

    def _is_down(self, engine: Engine) -> bool:
        """Whether a job has not come back yet from what ended its pods, whose errors are then not another event's."""
        if self.ended is None:
            return False
        if any(process is each for pod, process in self.ending for _, each in pod.processes()):
            self.ended = time.monotonic()
            return True
        observed = engine.observed
        if observed.came_back_to(self.ended) is None and observed.since(self.ended) < AGAIN_STEPS:
            return True
        self.ended = None
        return False

    def _saved(self, step: int) -> list[int]:
        if self.kept is not None:
            return self.kept.steps()
        if self.written is not None:
            self.written.look(step)
            return self.written.steps
        return []

    def _do(self, engine: Engine, each: Event) -> list[RunningPod]:
        """Do it, and say which pods it ends whole."""
        match each.kind:
            case "kill-rank":
                return _kill_rank(engine)
            case "kill-node":
                pod = _victim(engine)
                pod.lose()
                return [pod]
            case "lose-node":
                pod = _victim(engine)
                self.away = Away(pod.name, time.monotonic())
                engine.absent.add(pod.name)
                pod.lose()
                return [pod]
            case "preempt":
                for pod in engine.pods.values():
                    pod.disrupted = not pod.over
                    pod.stop()
                return list(engine.pods.values())
            case "cut":
                engine.place.network.cut(*(engine.pods[name].spot for name in each.pods))
                self.cuts.append(each)
                self.given_up = engine.given_up
            case "fill-disk" if self.disk is not None:
                with _stopped(engine):
                    _fill(self.disk)
                self.given_up = engine.given_up
            case "slow-disk" if self.disks is not None:
                self.disks.slow(each.claim, each.bytes_per_second)
        return []

    def _comes_back(self, away: Away, engine: Engine) -> bool:
        """An elastic job has to go on without the node first; another cannot, and gets it back."""
        if not self.elastic:
            return time.monotonic() - away.since >= AWAY_SECONDS
        return engine.observed.since(away.since) >= AWAY_STEPS

    def _watch(self, disks: SlowDisks, engine: Engine) -> None:
        """Tell of each save that is over; a job that waits for its disk is at work."""
        if disks.busy:
            engine.observed.alive = time.monotonic()
        for save in disks.saves()[self.told :]:
            if time.monotonic() - save.ended < QUIET_SECONDS:
                break
            self.told += 1
            engine.say(f"slow disk: {size(save.size)} in {save.seconds:.1f} s onto claim {save.claim}, {save.folder}")

    def _relent(self, engine: Engine) -> None:
        """Give back what the job needs to go on: room on its disk, and the connection."""
        if self.disk is not None:
            (self.disk / FILLER).unlink(missing_ok=True)
        for each in self.cuts:
            engine.place.network.join(*(engine.pods[name].spot for name in each.pods))
        self.cuts.clear()


def _victim(engine: Engine) -> RunningPod:
    """The last pod that trains: losing the first would be losing the rendezvous as well."""
    pods = [pod for pod in engine.pods.values() if not pod.over]
    ranks = [pod for pod in pods if pod.plan.member.pod_set.role not in _LEADERS]
    return (ranks or pods)[-1]


def _every_process(pods: Iterable[RunningPod]) -> list[int]:
    roots = [process.pid for pod in pods for _, process in pod.processes() if process.pid is not None]
    return [each.pid for found in below(roots).values() for each in found]


@contextmanager
def _stopped(engine: Engine) -> Iterator[None]:
    """No process of a pod runs in here: tiny steps would reach the end of the run before the disk is full."""
    every = _every_process(engine.pods.values())
    try:
        for pid in every:
            signal_process(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in every:
            signal_process(pid, signal.SIGCONT)


def _kill_rank(engine: Engine) -> list[RunningPod]:
    pod = _victim(engine)
    every = _every_process([pod])
    ranks = [(int(number), pid) for pid in every if (number := variable(pid, RANK)) is not None and number.isdigit()]
    if ranks:
        signal_process(max(ranks)[1], signal.SIGKILL)
        return []  # its launcher may start it again in the same container
    pod.kill()
    return [pod]


def _fill(disk: Path) -> None:
    """Write until nothing more goes onto a disk."""
    chunk = b"\0" * (1 << 20)
    end = time.monotonic() + 10
    with suppress(OSError):
        descriptor = os.open(disk / FILLER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            while time.monotonic() < end:
                os.write(descriptor, chunk)
        finally:
            os.close(descriptor)
