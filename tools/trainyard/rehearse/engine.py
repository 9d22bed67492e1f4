"""Runs the pods of a job from start to end, as its controller would."""

import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainyard.rehearse.controllers import Controller
from trainyard.rehearse.disk.slow import PendingWrite
from trainyard.rehearse.network import PodSpot
from trainyard.rehearse.observe import RunProgress
from trainyard.rehearse.podplan import PodPlan
from trainyard.rehearse.pods import Place, RunningPod
from trainyard.rehearse.probes import Condemned
from trainyard.rehearse.process import below
from trainyard.rehearse.saved import ClaimWrites
from trainyard.workload.ray import SUBMITTER

TICK = 0.1
LISTEN_SECONDS = 1.0
BUSY = 0.3
"""Processor time a second, in seconds, from which on pods that print nothing are at work and do not hang."""
SAME_FAILURES = 3
"""After so many failures of a small job in a row without a step, the rehearsal waits for no more."""
Ending = Literal["succeeded", "failed", "hangs", "timeout"]


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """A pod that ended for good, or a container that was started again."""

    pod: str
    role: str
    codes: dict[str, int]
    disrupted: bool
    killed_in_grace: bool
    condemned: tuple[tuple[str, Condemned], ...]
    """Containers that a probe ended, by name."""
    saving: PendingWrite | None
    """What it was writing when its grace was over."""
    wound_down: bool
    """Ended because the job was over."""
    restarted: int
    """How often its containers were started again in place."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    ending: Ending
    reason: str
    seconds: float
    pods: tuple[ContainerEnd, ...]
    """All pods, in the order of their end; those that the controller replaced included."""
    replaced: int


@dataclass(slots=True)
class Engine:
    """One run of a job."""

    name: str
    plans: Sequence[tuple[PodPlan, PodSpot]]
    place: Place
    controller: Controller
    observed: RunProgress
    patience: float
    timeout: float
    before_tick: Callable[["Engine"], None]
    """Called often; chaos comes from here."""
    on_hang: Callable[["Engine"], None]
    on_failure: Callable[["Engine"], None]
    """Called while a pod that failed is still known to the others."""
    written: ClaimWrites | None = None
    """What the job writes to its claims, where only a look tells."""
    pods: dict[str, RunningPod] = field(default_factory=dict)
    ended: list[ContainerEnd] = field(default_factory=list)
    replaced: int = 0
    absent: set[str] = field(default_factory=set)
    """Pods for which there is no node: they are pending."""
    failures: int = 0
    steps: int = 0
    anew: bool = False

    def run(self) -> Outcome:
        """From the first pod to the last."""
        began = time.monotonic()
        self.observed.alive = began
        try:
            for plan, spot in self.plans:
                self._start(plan, spot, 0)
            ending, reason = self._loop(began + self.timeout)
            if ending in ("succeeded", "failed"):
                self._wind_down()
            return Outcome(ending, reason, time.monotonic() - began, self._told(), self.replaced)
        finally:
            for pod in self.pods.values():
                pod.close()

    def _loop(self, deadline: float) -> tuple[Ending, str]:
        spent, listened = 0.0, 0.0
        while True:
            self._wait()
            self.before_tick(self)
            self._let_go()
            for pod in list(self.pods.values()):
                if pod.advance() and pod.lives:
                    self.observed.alive = time.monotonic()
                if pod.phase == "failed" and not pod.left:
                    self.on_failure(self)
                if pod.over:
                    pod.leave()
            decision = self._decide()
            if decision is not None:
                return decision
            now = time.monotonic()
            if now - listened >= LISTEN_SECONDS:
                self.observed.listen()
                if self.written is not None:
                    self.written.look(self.observed.reached)
                used, memory = self._taken()
                self.place.bounds.check(self.name, memory)
                if listened and used - spent > BUSY * (now - listened):
                    self.observed.alive = now
                spent, listened = used, now
            if now - self.observed.alive > self.patience:
                self.on_hang(self)
                return "hangs", f"no output, no progress and no work for {self.patience:g} s"
            if now > deadline:
                self.on_hang(self)
                return "timeout", f"not over after {self.timeout:g} s"

    def _wait(self) -> None:
        """Sleep until some pod prints or a tick is over."""
        with selectors.DefaultSelector() as selector:
            for pod in self.pods.values():
                for _, process in pod.processes():
                    if process.popen.poll() is None:
                        selector.register(process, selectors.EVENT_READ)
            if selector.get_map():
                selector.select(TICK)
            else:
                time.sleep(TICK / 2)

    def _decide(self) -> tuple[Ending, str] | None:
        """Let the controller act on what has ended."""
        pods = list(self.pods.values())
        if self.anew:
            if all(pod.over for pod in pods):
                self.anew = False
                for pod in pods:
                    self._replace(pod)
                    self.pods[pod.name].held = pod.plan.member.pod_set.role == SUBMITTER
            return None
        if self.controller.done(pods):
            return "succeeded", ""
        for pod in pods:
            if pod.phase != "failed" and not (pod.disrupted and pod.over):
                continue
            decision = self.controller.failed(pod)
            self.say(
                f"{pod.name} failed ({_codes(pod)}): {decision.step}{f', {decision.reason}' * bool(decision.reason)}"
            )
            if decision.step == "fail":
                return "failed", decision.reason
            if not pod.disrupted and self._over_and_over():
                return (
                    "failed",
                    f"{SAME_FAILURES} pods failed without a step between them; {decision.reason or 'more follow'}",
                )
            if decision.step == "replace":
                self._replace(pod)
            if decision.step == "restart all":
                self.anew = True
                for each in pods:
                    each.stop()
                break
        return None

    def _over_and_over(self) -> bool:
        """Whether pods keep failing and training gets no further, whatever the controller forgives."""
        steps = len(self.observed.taken)
        self.failures = self.failures + 1 if steps == self.steps else 1
        self.steps = steps
        return self.failures >= SAME_FAILURES * max(1, len(self.plans) // 2)

    @property
    def given_up(self) -> int:
        """How often a container has ended with an error, those that were started again in place included."""
        before = sum(each.restarted + 1 for each in self.ended)
        return before + sum(code != 0 for pod in self.pods.values() for each in pod.main for code in each.codes)

    def say(self, text: str) -> None:
        """A line of the rehearsal's own."""
        self.place.log("", "", text)

    def _replace(self, pod: RunningPod) -> None:
        self.ended.append(_ended(pod))
        pod.close()
        self.replaced += 1
        self._start(pod.plan, pod.spot, pod.attempt + 1)

    def _start(self, plan: PodPlan, spot: PodSpot, attempt: int) -> None:
        pod = RunningPod.start(plan, spot, self.place, attempt)
        pod.held = plan.name in self.absent or (plan.member.pod_set.role == SUBMITTER and attempt == 0)
        if plan.name in self.absent:
            self.place.network.set_running(spot, False)
        self.pods[plan.name] = pod

    def _let_go(self) -> None:
        """Start pods whose node is back, and the submitter once the cluster is ready."""
        held = [pod for pod in self.pods.values() if pod.held and pod.name not in self.absent]
        ready = all(pod.was_ready for pod in self.pods.values() if not pod.held)
        for pod in held:
            if ready or pod.plan.member.pod_set.role != SUBMITTER:
                pod.held = False
                self.place.network.set_running(pod.spot, True)

    def _wind_down(self) -> None:
        """End the pods that are left when the job is over, as its controller cleans up."""
        for pod in self.pods.values():
            pod.stop()
        end = time.monotonic() + 3
        while time.monotonic() < end and not all(pod.over for pod in self.pods.values()):
            self._wait()
            for pod in self.pods.values():
                pod.advance()

    def _told(self) -> tuple[ContainerEnd, ...]:
        return (*self.ended, *(_ended(pod) for pod in self.pods.values()))

    def _taken(self) -> tuple[float, int]:
        """Processor time that the pods' processes have used, in seconds, and their memory in bytes."""
        roots = [process.pid for pod in self.pods.values() for _, process in pod.processes() if process.pid]
        every = [each for found in below(roots).values() for each in found]
        return sum(each.seconds for each in every), sum(each.memory for each in every)


def _ended(pod: RunningPod) -> ContainerEnd:
    every = (*pod.init, *pod.main)
    return ContainerEnd(
        pod=pod.name,
        role=pod.plan.member.pod_set.role,
        codes=pod.exit_codes,
        disrupted=pod.disrupted,
        killed_in_grace=any(each.killed_in_grace for each in every),
        condemned=tuple((each.plan.name, wrong) for each in every for wrong in each.condemned),
        saving=pod.saving,
        wound_down=pod.stopping_since is not None and not pod.disrupted,
        restarted=sum(max(0, len(each.codes) - 1) for each in every),
    )


def _codes(pod: RunningPod) -> str:
    return ", ".join(f"{name} ended with {code}" for name, code in pod.exit_codes.items() if code) or "evicted"
