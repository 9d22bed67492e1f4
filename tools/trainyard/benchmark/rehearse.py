"""The chain on this machine: the steps of the same WorkflowTemplate in the same order, its jobs as processes on CPUs.

There is no API server here, so nodes are what this machine is, and Kubernetes' own part is not measured. A node can be
slowed: its processes are stopped for a part of each 20 ms, as a limit on CPU time does.
"""

import contextlib
import json
import os
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from trainyard.benchmark.assemble import COLLECTED, CREATED, NODES, assemble
from trainyard.benchmark.create import make
from trainyard.errors import Fault, InputError

Json = dict[str, Any]

PERIOD_SECONDS = 0.02
LOOK_SECONDS = 0.3
RANK = ("OMPI_COMM_WORLD_RANK", "RANK", "PMIX_RANK")
"""What a launcher tells a process of its rank; here a node has one."""
PROGRAMS = ("trainer.bench", "trainer")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Where the chain is, how large it is rehearsed, and which node is slow."""

    home: Path
    cluster: str
    name: str
    results: Path
    nodes: int
    slow: tuple[int, float] | None
    """A node's number and the part of the time that it may compute."""
    say: Callable[[str], None]

    @property
    def folder(self) -> Path:
        return self.results / self.name

    def run(self) -> list[str]:
        """Every step in order; returns their names. Fault where one fails, InputError where the chain is none."""
        ran = []
        for template, job in steps(self._chain()):
            started = time.monotonic()
            what = f"{template} {job}".rstrip()
            self._step(template, job)
            ran.append(what)
            self.say(f"{what}: {time.monotonic() - started:.1f} s")
        return ran

    def _chain(self) -> Json:
        """The WorkflowTemplate as the cluster's platform renders it."""
        folder = f"clusters/{self.cluster}/platform/benchmark"
        done = subprocess.run(
            [self.home / ".tools/bin/kustomize", "build", folder], cwd=self.home, capture_output=True, text=True
        )
        found = [item for item in yaml.safe_load_all(done.stdout) if item and item["kind"] == "WorkflowTemplate"]
        if done.returncode or len(found) != 1:
            raise InputError("renders no WorkflowTemplate", folder)
        chain: Json = found[0]["spec"]
        return chain

    def _step(self, template: str, job: str) -> None:
        match template:
            case "nodes":
                _write(self.folder / NODES, {"fingerprint": this_machine(self.nodes), "nodes": []})
            case "create":
                made = make(self._job(job), f"{self.name}-{job}", self.home / ".tools/bin/kustomize")
                _write(self.folder / job / CREATED, {"images": made.images, "digest": made.digest})
            case "run":
                self._rehearse(job)
            case "collect":
                _write(self.folder / job / COLLECTED, collected(self.folder / job / "logs", self.nodes))
            case "assemble":
                _write(self.results / "runs" / f"{self.name}.json", assemble(self.folder, self.name))
            case "compare":
                self._compare()
            case _:
                raise InputError(f"has a step that a rehearsal does not know: {template}", "workflow-template.yaml")

    def _job(self, job: str) -> Path:
        return self.home / "clusters" / self.cluster / "benchmark" / job

    def _rehearse(self, job: str) -> None:
        """The job's pods as processes; what they print goes to files."""
        logs = self.folder / job / "logs"
        logs.mkdir(parents=True)
        size = [f"--nodes={self.nodes}", "--gpus-per-node=1"]
        command: list[str | Path] = [
            self.home / "tools/rehearse-job",
            self._job(job),
            "--once",
            "--quiet",
            *size,
            f"--logs={logs}",
        ]
        with slowed(self.slow):
            done = subprocess.run(command, cwd=self.home, capture_output=True, text=True)
        # 1 is a finding, such as that a program which measures leaves no checkpoint; what counts is what it measured
        if done.returncode not in (0, 1) or not spoken(logs):
            raise Fault(f"{job} did not run: {(done.stderr or done.stdout).strip()[-400:]}")

    def _compare(self) -> None:
        """What the template's step does, where there is a baseline."""
        baseline = self._job("baseline.json")
        if not baseline.is_file():
            self.say("no baseline yet: lock one with tools/bench-report lock")
            return
        runs = sorted((self.results / "runs").glob("*.json"))
        command: list[str | Path] = [self.home / "tools/bench-report", "compare", *runs, "--baseline", baseline]
        self.say(subprocess.run(command, capture_output=True, text=True).stdout)


def steps(chain: Json) -> Iterator[tuple[str, str]]:
    """Templates and their `job` parameter in the order in which Argo runs them; those of steps are opened up."""
    templates = {template["name"]: template for template in chain["templates"]}

    def of(name: str, job: str) -> Iterator[tuple[str, str]]:
        if "steps" not in templates[name]:
            yield name, job
            return
        for group in templates[name]["steps"]:
            for step in group:
                given = {each["name"]: each["value"] for each in step.get("arguments", {}).get("parameters", [])}
                own = given.get("job", job)
                yield from of(step["template"], job if own.startswith("{{") else own)

    yield from of(chain["entrypoint"], "")


def this_machine(nodes: int) -> dict[str, dict[str, str]]:
    """The fingerprint of this machine as so many nodes."""
    processors = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in processors if line.startswith("model name")), "not stated")
    return {
        "hardware": {"processor": model, "cores": str(os.cpu_count()), "nodes": str(nodes)},
        "driver": {"kernel": platform.release()},
        "topology": {"all": "one machine"},
    }


def collected(logs: Path, nodes: int) -> Json:
    """What the ranks printed, in the form of `collect`."""
    lines = spoken(logs)
    bench = next((line for line in lines if "collectives" in line), None)
    hosts = {rank["host"]: f"node-{rank['rank']}" for rank in (bench or {}).get("ranks", [])}
    return {
        "kubernetes": {},
        "nodes": hosts or {f"node-{rank}": f"node-{rank}" for rank in range(nodes)},
        "bench": bench,
        "result": next((line for line in reversed(lines) if "final_loss" in line), None),
        "steps": [line for line in lines if "step" in line and "step_seconds" in line],
        "usage": {},
        "phases": {},
        "firmware": {},
        "end": datetime.now(UTC).timestamp(),
    }


def spoken(logs: Path) -> list[Json]:
    """The JSON objects that containers printed."""
    found = []
    for file in sorted(logs.glob("*.log")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
    return found


@contextlib.contextmanager
def slowed(slow: tuple[int, float] | None) -> Iterator[None]:
    """Stops a rank's processes for a part of the time until the block ends."""
    if slow is None:
        yield
        return
    rank, part = slow
    over, processes = threading.Event(), _Processes(os.getpid(), rank)
    threads = [
        threading.Thread(target=work, daemon=True)
        for work in (lambda: processes.follow(over), lambda: _limit(processes, part, over))
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@dataclass(slots=True)
class _Processes:
    """The processes of a rank below another process, as they come and go."""

    root: int
    rank: int
    found: tuple[int, ...] = ()

    def follow(self, over: threading.Event) -> None:
        """Looks for them until it is over: a look takes longer than a period, so it is not the limiter's to take."""
        while not over.wait(LOOK_SECONDS):
            self.found = tuple(pid for pid in _descendants(self.root) if _is_rank(pid, self.rank))


def _limit(processes: _Processes, part: float, over: threading.Event) -> None:
    while not over.is_set():
        mine = processes.found
        _signal(mine, signal.SIGSTOP)
        time.sleep(PERIOD_SECONDS * (1 - part))
        _signal(mine, signal.SIGCONT)
        time.sleep(PERIOD_SECONDS * part)


def _signal(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(root: int) -> list[int]:
    """All processes that a process started, itself left out."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = [], list(parents.get(root, []))
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def _is_rank(process: int, rank: int) -> bool:
    """Whether a process is a rank's program, and of this rank."""
    try:
        words = (Path("/proc") / str(process) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        variables = (Path("/proc") / str(process) / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    named: Mapping[str, str] = dict(each.partition("=")[::2] for each in variables)
    ranks = [named[name] for name in RANK if name in named]
    return bool(set(PROGRAMS) & set(words)) and ranks[:1] == [str(rank)]


def _write(file: Path, said: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
