"""A pod at run time: its containers in order, restarted or not, ready or not, ended with grace."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from trainyard.rehearse.bounds import Bounds
from trainyard.rehearse.disk.slow import PendingWrite, SlowDisks
from trainyard.rehearse.network import Network, PodSpot
from trainyard.rehearse.orders import Programs, environment_of, orders
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.probes import Condemned, Probe, Watch
from trainyard.rehearse.process import Process, start
from trainyard.rehearse.sandbox import Sandbox
from trainyard.rehearse.volumes import Volume, Volumes

Phase = Literal["init", "running", "succeeded", "failed"]
RESTART_DELAY = 0.5
"""Seconds before a container starts again, twice as many each time; the kubelet begins with ten."""
LONGEST_DELAY = 5.0
MANY_RESTARTS = 3
"""From which time on a container that starts again is no sign of life."""


@dataclass(frozen=True, slots=True)
class Place:
    """What pods are run with on this machine."""

    network: Network
    sandbox: Sandbox
    volumes: Volumes
    programs: Programs
    bounds: Bounds
    state: Path
    log: Callable[[str, str, str], None]
    """Told each line: pod, container, text."""
    disks: SlowDisks | None = None
    """The claims that chaos may make slow."""


@dataclass(slots=True)
class RunningContainer:
    """One container, over all of its runs."""

    plan: ContainerPlan
    process: Process | None = None
    codes: list[int] = field(default_factory=list)
    """Exit codes of the runs that are over."""
    again_at: float = 0.0
    watch: Watch = field(default_factory=lambda: Watch({}))
    condemned: list[Condemned] = field(default_factory=list)
    """Its runs that a probe ended."""
    kill_at: float | None = None
    """When its grace is over, where a probe has ended it."""
    killed_in_grace: bool = False

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def ready(self) -> bool:
        """Whether its probes say so."""
        return self.running and self.watch.started and self.watch.ready


@dataclass(slots=True)
class RunningPod:
    """One pod, from its start to its end. A pod that takes its place is another RunningPod."""

    plan: PodPlan
    spot: PodSpot
    place: Place
    attempt: int
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    init: list[RunningContainer] = field(default_factory=list)
    main: list[RunningContainer] = field(default_factory=list)
    phase: Phase = "init"
    held: bool = False
    """Not made yet: KubeRay makes the submitter when the cluster is ready."""
    disrupted: bool = False
    """Evicted, pre-empted, or its node is lost: the condition DisruptionTarget."""
    lost: bool = False
    """Its node is gone, and nothing of it had any grace."""
    stopping_since: float | None = None
    saving: PendingWrite | None = None
    """What it was writing when its grace was over."""
    was_ready: bool = False
    left: bool = False
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, plan: PodPlan, spot: PodSpot, place: Place, attempt: int) -> "RunningPod":
        """Make a pod's volumes and let its containers come."""
        pod = cls(plan, spot, place, attempt)
        pod.volumes = place.volumes.of_pod(plan)
        pod.init = [RunningContainer(each) for each in plan.init]
        pod.main = [RunningContainer(each) for each in plan.containers]
        place.network.set_running(spot, True)
        place.network.set_ready(spot, False)
        return pod

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def over(self) -> bool:
        return self.phase in ("succeeded", "failed")

    @property
    def lives(self) -> bool:
        """Whether its changes are progress: one that starts over and over gets nowhere."""
        return all(len(each.codes) <= MANY_RESTARTS for each in (*self.init, *self.main))

    @property
    def exit_codes(self) -> dict[str, int]:
        """The last exit code of each container that has ended."""
        return {each.plan.name: each.codes[-1] for each in (*self.init, *self.main) if each.codes}

    def processes(self) -> Iterator[tuple[RunningContainer, Process]]:
        """Its containers that run."""
        for each in (*self.init, *self.main):
            if each.process is not None:
                yield each, each.process

    def advance(self) -> bool:
        """Do what is due; whether something changed."""
        if self.over or self.held:
            return False
        changed = self._reap()
        if self.stopping_since is not None:
            return self._end_stopping() or changed
        if self.phase == "init":
            changed = self._initialise() or changed
        if self.phase == "running":
            changed = self._run() or changed
        return self._probe() or changed

    def stop(self) -> None:
        """Ask it to end: SIGTERM to each container, SIGKILL when its grace is over."""
        if self.over or self.stopping_since is not None:
            return
        self.held = False
        self.stopping_since = time.monotonic()
        self.place.network.set_ready(self.spot, False)
        for _, process in self.processes():
            process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill what runs in it; its containers start again where they may."""
        for _, process in self.processes():
            process.kill()

    def lose(self) -> None:
        """End it for good and at once, as when its node is lost."""
        self.lost = self.disrupted = True
        self.stopping_since = time.monotonic()
        self.kill()

    def close(self) -> None:
        """Kill what still runs and let go of it."""
        for each, process in self.processes():
            process.close()
            each.process = None
        for each in (*self.init, *self.main):
            each.watch.close()

    def _launch(self, each: RunningContainer) -> None:
        each.process = begin(self.place, self.plan, self.spot, each.plan, self.volumes)
        each.watch, each.kill_at = Watch(each.plan.probes), None

    def _reap(self) -> bool:
        changed = False
        for each, process in list(self.processes()):
            code = process.poll()
            for line in process.lines():
                self.place.log(self.name, each.plan.name, line)
            if code is None:
                continue
            each.codes.append(code)
            each.killed_in_grace = each.killed_in_grace or process.killed
            delay = min(LONGEST_DELAY, RESTART_DELAY * 2 ** (len(each.codes) - 1))
            each.again_at = time.monotonic() + delay
            each.watch.close()
            process.close()
            each.process = None
            changed = True
        return changed

    def _initialise(self) -> bool:
        """Init containers one after the other; a sidecar among them only has to have started."""
        for each in self.init:
            if each.plan.sidecar:
                if each.process is None and time.monotonic() >= each.again_at:
                    self._launch(each)
                    return True
                if each.process is None or not each.watch.started:
                    return False
                continue
            if each.codes and each.codes[-1] == 0 and each.process is None:
                continue
            return self._again(each)
        self.phase = "running"
        return True

    def _again(self, each: RunningContainer) -> bool:
        """Start an init container, anew where it may be."""
        if each.process is not None:
            return False
        if each.codes and self.plan.restart_policy == "Never":
            return self._finish("failed")
        if time.monotonic() < each.again_at:
            return False
        self._launch(each)
        return True

    def _run(self) -> bool:
        changed = False
        for each in self.init:
            if each.plan.sidecar and each.process is None and time.monotonic() >= each.again_at:
                self._launch(each)
                changed = True
        for each in self.main:
            if each.process is None and self._starts(each):
                self._launch(each)
                changed = True
        if all(each.process is None and each.codes and not self._comes_again(each) for each in self.main):
            good = all(each.codes[-1] == 0 for each in self.main)
            return self._finish("succeeded" if good else "failed")
        return changed

    def _comes_again(self, each: RunningContainer) -> bool:
        policy = self.plan.restart_policy
        return policy == "Always" or (policy == "OnFailure" and each.codes[-1] != 0)

    def _starts(self, each: RunningContainer) -> bool:
        return not each.codes or (self._comes_again(each) and time.monotonic() >= each.again_at)

    def _end_stopping(self) -> bool:
        assert self.stopping_since is not None
        running = list(self.processes())
        if not running:
            good = all(each.codes and each.codes[-1] == 0 for each in self.main)
            return self._finish("succeeded" if good else "failed")
        if time.monotonic() - self.stopping_since >= self.plan.grace:
            if self.place.disks is not None and self.saving is None:
                self.saving = self.place.disks.held(self.name)
            for _, process in running:
                process.killed = not self.lost
                process.kill()
        return False

    def _finish(self, phase: Phase) -> bool:
        self.phase = phase
        for each, process in list(self.processes()):  # sidecars
            process.close()
            each.process = None
        return True

    def leave(self) -> None:
        """Have a pod that is over leave the network's names and Services."""
        if not self.left:
            self.left = True
            self.place.network.set_running(self.spot, False)

    def _probe(self) -> bool:
        """Ask containers that want to be asked, end those that answer wrong, and tell the network who is ready."""
        changed, now = False, time.monotonic()
        for each, process in self.processes():
            if each.kill_at is not None:
                if now >= each.kill_at:
                    process.kill()
            elif process.pid is not None and (wrong := each.watch.advance(partial(self._ask, each, process.pid))):
                self.place.log("", "", f"{self.name}: the {wrong.kind} probe of {each.plan.name} ends it")
                each.condemned.append(wrong)
                each.watch.close()
                each.kill_at = now + (self.plan.grace if wrong.probe.grace is None else wrong.probe.grace)
                process.signal(signal.SIGTERM)
                changed = True
        ready = self.phase == "running" and all(each.ready for each in self.main)
        if ready != self.was_ready:
            self.was_ready = ready
            self.place.network.set_ready(self.spot, ready)
        return changed

    def _ask(self, each: RunningContainer, pid: int, probe: Probe) -> "subprocess.Popen[bytes]":
        network, plan = self.place.network, each.plan
        if not probe.command:
            return _silently(probe.words(network.address(self.spot), network.argv(self.spot)))
        own = [f"--setuid={plan.user}", f"--setgid={plan.group}"] if network.users else ["--preserve-credentials"]
        inside = [f"--target={pid}", "--mount", "--uts", "--ipc", "--pid", "--user", *own, "--"]
        nsenter, *outside = network.sandboxed(self.spot)
        words = [nsenter, *outside, nsenter, *inside, *probe.command]
        # It runs in the container, and must not find there what this machine has in its environment.
        return _silently(words, environment_of(plan))


def begin(
    place: Place, plan: PodPlan, spot: PodSpot, container: ContainerPlan, volumes: Mapping[str, Volume]
) -> Process:
    """Start a container of a pod in its sandbox."""
    reading, writing = os.pipe()
    network = place.network
    starts_sshd = any(word.rpartition("/")[2] == "sshd" for word in container.command)
    host_key = place.volumes.host_key() if starts_sshd else ""
    given = orders(plan, container, volumes, place.programs, users=network.users, host_key=host_key)
    inside = place.sandbox.command(
        given,
        notes=place.state / "notes",
        resolv_conf=network.resolv_conf(spot),
        hosts=network.hosts(spot),
        status=writing,
    )
    words, inherited = ([], None) if place.disks is None else place.disks.hand_over(plan.writes_of(container))
    inherits = (given.descriptor,) if inherited is None else (given.descriptor, inherited.fileno())
    command = [*place.bounds.words(), *words, *network.sandboxed(spot), *inside]
    process = start(command, (reading, writing), inherits)
    os.close(given.descriptor)
    if inherited is not None:
        inherited.close()
    return process


def _silently(words: Sequence[str], environment: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    silent = subprocess.DEVNULL
    if any("\0" in word for word in (*words, *chain(*(environment or {}).items()))):
        # No program can be given that, and on a node the probe fails too.
        words, environment = ["false"], None
    return subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent, start_new_session=True, env=environment)
