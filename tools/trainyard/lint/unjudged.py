"""What nobody could judge of a job: parts hidden in an image, behind a branch, or of a kind that no rule knows.

It is no finding, and changes no exit code: a run that passes says by it how far that goes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainyard.objects.objects import Spot
from trainyard.objects.unit import Unit
from trainyard.rules.common.programs import Program, programs
from trainyard.rules.registry import Problem, Rule
from trainyard.rules.rendezvous.worlds import worlds_apart
from trainyard.workload.command import basename
from trainyard.workload.model import Container, Word, Workload
from trainyard.workload.of_unit import workloads
from trainyard.workload.templates import SERVING

_START = "rendezvous, ranks and exit code"
_BATCH = "batch"
_OF_FINDINGS = {
    "SCH002": ("fields", "no schema"),
    "SCH004": ("pods", "no rule knows this version"),
    "SCH006": ("pods", "its runtime is not among the manifests"),
    "SCH007": ("fields", "no schema"),
}
"""What findings leave unjudged of the object that they are about, and why."""
_COUNTED = (
    "nnodes",
    "nproc_per_node",
    "num_machines",
    "num_nodes",
    "num_processes",
    "np",
    "rdzv_endpoint",
    "master_addr",
    "main_process_ip",
)
"""Options that rules on rendezvous and ranks are about."""
_ROLES = ("micro", "accumulation", "global")
_NO_TRAINING = re.compile(r"(trainer\.bench|.*_perf|cat|hostname|nvidia-smi|pause|sleep|sshd|tail|true)\Z")
"""Programs that have no batch: benchmarks, probes, pods that wait."""
_INTERPRETER = re.compile(r"-|(.*/)?python[0-9.]*\Z")
_AROUND = re.compile(
    r"(\.|\[\[?|apt|apt-get|awk|cat|cd|chmod|chown|conda|cp|curl|date|echo|env|exit|export|find|git|grep|hostname|kill|"
    r"ldconfig|ln|ls|mkdir|mv|nvidia-smi|pip3?|pkill|printf|read|rm|sed|service|set|sleep|source|ssh-keygen|tar|tee|"
    r"test|touch|trap|true|ulimit|umask|unset|unzip|wait|wget)\Z"
)
"""Commands that stand around the program that trains."""
_BY_RAY = ("RayCluster", "RayJob", "RayService")
"""Kinds whose pods start Ray, and no training until they are given one."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One part of a job that was not judged."""

    what: str
    """What rules would have said something about: `batch`."""
    why: str
    """Why they could not, as a clause."""
    spot: Spot


def gaps(unit: Unit, found: Sequence[tuple[Rule, Problem]]) -> tuple[Gap, ...]:
    """What is not judged of a unit, given what its rules found."""
    told = (_told(*_OF_FINDINGS[rule.id], each.spot) for rule, each in found if rule.id in _OF_FINDINGS)
    jobs = (workload for workload in workloads(unit) if workload.object.kind not in SERVING)
    every = [*told, *(gap for workload in jobs for gap in _of_workload(workload))]
    return tuple({(gap.what, gap.why): gap for gap in reversed(every)}.values())[::-1]


def _told(what: str, why: str, spot: Spot) -> Gap:
    return Gap(f"{what} of {spot.object.kind or 'an object'}", why, spot)


def _of_workload(workload: Workload) -> Iterator[Gap]:
    for pods, why, spot in worlds_apart(workload):
        yield Gap(f"whether the {pods} pods are to train as one", f"{why}, so each trains alone", spot)
    known = {id(program.container): program for program in programs(workload)}
    for main in _mains(workload):
        launch = main.launch
        if launch is None:
            yield from _opaque(main)
            continue
        if not launch.certain:
            yield Gap("rendezvous", f"a branch of the script decides whether {launch.launcher} runs", launch.spot)
        for name in _COUNTED:
            option = launch.option(name)
            if option is not None and option.value is None:
                yield Gap(name, "its value is known only in the pod", option.spot)
        program = known.get(id(main))
        named = "" if program is None or _has_batch(program) else _named(program.words)
        if program is not None and named and not _NO_TRAINING.match(named):
            yield Gap(_BATCH, f"nothing is known of the program {named}", program.words[0].spot)


def _mains(workload: Workload) -> list[Container]:
    """The containers that start the training: those with a launch, else that of the pods with most GPUs."""
    mains = [main for each in workload.pod_sets if (main := each.main()) is not None and not main.by_controller]
    launching = [main for main in mains if main.launch is not None]
    if launching or workload.object.kind in _BY_RAY:
        return launching
    return [max(mains, key=lambda main: main.gpus)] if mains else []


def _opaque(container: Container) -> Iterator[Gap]:
    written = [field for field in ("command", "args") if container.data.get(field)]
    if not written:
        yield Gap(_START, "the image decides what runs", container.spot.below("image"))
        return
    if not container.lines:
        why = "no command of the script is known: it is no shell's, too long, or becomes too long"
        yield Gap(_START, why, container.spot.below(written[-1]))
        return
    lines = [line for line in container.lines if not _AROUND.match(basename(line[0]))]
    words = [word for word in lines[-1] if not word.text.startswith("-")][:2] if lines else []
    if words and not _NO_TRAINING.match(basename(words[0])):
        yield Gap(_START, f"nothing is known of `{' '.join(word.text for word in words)}`", words[0].spot)


def _has_batch(program: Program) -> bool:
    return program.known or any(program.setting(role) is not None for role in _ROLES)


def _named(words: Sequence[Word]) -> str:
    """The name of the program; empty where there is none."""
    for index, word in enumerate(words):
        if word.text == "-c":
            return "python -c"
        if not _INTERPRETER.match(word.text):
            return basename(words[index])
    return ""
