"""What is known of one target while it is judged, and what becomes a finding of it."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from trainyard import limits
from trainyard.bounded import ItemEnd
from trainyard.commandline import TRACEBACK
from trainyard.errors import Fault, InputError, UsageError
from trainyard.findings.finding import BROKE, Finding, NotJudged, Place, Position, Severity
from trainyard.lint.masked import SECRET
from trainyard.objects.objects import Spot
from trainyard.objects.origin import Origin
from trainyard.objects.unit import Unit
from trainyard.repository.discover import STDIN, Target, TargetKind
from trainyard.rules.registry import Problem, Rule, declare
from trainyard.yaml.fieldpath import format_path, lookup
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

if TYPE_CHECKING:
    pass


BAD_INPUT = declare(
    "INP001",
    "bad-input",
    Severity.ERROR,
    """The input cannot be judged, so nothing is said about what it would do.

    Broken YAML, a base that does not exist, a patch that hits nothing, a file that is too large or cannot be read, a
    kustomization that reaches out of the repository or onto the network. Also what is judged only in part: a key that
    stands twice, of which the last counts; more findings of one rule than anybody reads; more objects, memory or time
    than a job needs. The exit code is 2, and all other jobs are judged.

    Bad:
        # kustomization.yaml
        patches:
        - path: patch.yaml
          target: {kind: Jobb}

    Good:
        # kustomization.yaml
        patches:
        - path: patch.yaml
          target: {kind: Job}

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
    """,
)

LINTER_BROKE = declare(
    BROKE,
    "linter-broke",
    Severity.ERROR,
    """The linter broke on this input, so it is not known whether it would train.

    A rule that raises, a renderer that ends: this is a fault of the linter or of the machine, not of the job. The exit
    code is 3, and all other jobs are judged. With LINT_JOBS_TRACEBACK=1 standard error shows where it broke.

    Bad:
        # lint-jobs
        error: jobs/research/llama-8b-sft: RDV004 broke: ValueError: 12

    Good:
        # lint-jobs
        1 job passes
    """,
)


_OF_ONE_RULE = limits.FINDINGS // 5
"""Findings of one rule that are told of a target, or keys that stand twice of a file."""


def input_finding(error: InputError, unit: str) -> Finding:
    """The finding that stands for input which cannot be judged."""
    place = Place("", "", Position(error.file, error.line, error.column))
    rule = BAD_INPUT
    return Finding(
        rule.id, rule.name, rule.severity, error.message, place, help=error.help, jobs=(unit,), input_error=True
    )


def broken_finding(why: str, unit: str) -> Finding:
    """The finding that stands for a fault of the linter."""
    rule = LINTER_BROKE
    place = Place("", "", Position(unit, 0, 0))
    return Finding(rule.id, rule.name, rule.severity, why, place, jobs=(unit,), input_error=True)


def ended_finding(ended: ItemEnd, unit: str) -> Finding:
    """The finding that stands for a target at which the process that judges came to its end."""
    at = f" (at {ended.at})" if ended.at else ""
    return (
        input_finding(InputError(ended.why + at, unit), unit)
        if ended.too_much
        else broken_finding(ended.why + at, unit)
    )


def finding_of(rule: Rule, problem: Problem, origin: Origin, unit: str) -> Finding:
    """A rule's problem as the finding of a unit, with the places where its values were written."""
    place, *related = [place_of(spot, origin) for spot in (problem.spot, *problem.related[: limits.RELATED])]
    severity = rule.severity if problem.severity is None else problem.severity
    others = _others(place, related)
    return Finding(rule.id, rule.name, severity, problem.message, place, others, problem.help, (unit,))


def _others(place: Place, related: Sequence[Place]) -> tuple[Place, ...]:
    """Places that show something else than `place` and one another: fields that share a YAML anchor are one line."""
    shown = {(place.position, place.label)}
    others = []
    for each in related:
        if each.position is None or (each.position, each.label) not in shown:
            shown.add((each.position, each.label))
            others.append(each)
    return tuple(others)


def place_of(spot: Spot, origin: Origin) -> Place:
    """Where the value of a spot was written, and how it is shown."""
    from trainyard.workload.made import written

    spot = written(spot)
    path = format_path(spot.object.data, _shown(spot.path))
    return Place(spot.object.title, path, origin.position(spot.object, spot.path, spot.at_key), spot.label)


def _default_at(position: Position | None, sources: Sources) -> str:
    """The key of job.yaml whose default stands at a position of a base; empty where none does."""
    if position is None or not position.file.startswith("base/"):
        return ""
    with suppress(InputError):
        for document in sources.documents(position.file):
            if document.at(("kind",)) is not None and document.plain().get("kind") == "TrainingJob":
                return next((key for key, mark in _marks(document.at(("spec",)), ()) if mark == position), "")
    return ""


def _marks(node: Node | None, path: tuple[str, ...]) -> Iterator[tuple[str, Position | None]]:
    for key, below in node.value.items() if node is not None and isinstance(node.value, dict) else ():
        yield ".".join((*path, key)), below.mark
        yield from _marks(below, (*path, key))


def _shown(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A container's variable is one field to its reader, env[NAME], though its value is what the caret marks."""
    return path[:-1] if path[-1:] == ("value",) and path[-3:-2] == ("env",) else path


class Result:
    """What is known of a target while it is judged."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.findings: list[Finding] = []
        self.not_judged: list[NotJudged] = []
        self.reads: Mapping[str, str] = {}
        self.secrets: set[str] = set()
        self.told: Counter[str] = Counter()
        """Problems by rule."""
        self.completed: dict[str, str] = {}
        """Why fields that are missing in a file may come from elsewhere."""

    def leave(self, what: str, why: str, place: Place) -> None:
        """Something is not judged; told once, at its first place."""
        if all((each.what, each.why) != (what, why) for each in self.not_judged):
            self.not_judged.append(NotJudged(self.target.name, what, why, place))

    def fail(self, error: InputError) -> None:
        """The target cannot be judged further."""
        self.findings.append(input_finding(error, self.target.name))

    def fail_each(self, twice: Sequence[InputError]) -> None:
        """Keys of one file stand twice, so that it is judged in part."""
        for error in twice[:_OF_ONE_RULE]:
            self.fail(error)
        if len(twice) > _OF_ONE_RULE:
            self.fail(InputError(f"has more than {_OF_ONE_RULE} keys that stand twice", twice[0].file))

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What goes wrong in here ends the judgement of this target alone. A Fault is one of every target."""
        try:
            yield
        except InputError as error:
            self.fail(error)
        except Broke as error:
            self._broke(error, str(error))
        except (MemoryError, Fault, UsageError):
            raise
        except Exception as error:
            self._broke(error, f"{type(error).__name__}: {error}")

    def _broke(self, error: Exception, why: str) -> None:
        if os.environ.get(TRACEBACK):
            import traceback

            traceback.print_exception(error)
        self.findings.append(broken_finding(f"{why} ({TRACEBACK}=1 shows where)", self.target.name))

    def add(self, rule: Rule, problem: Problem, origin: Origin, sources: Sources) -> None:
        """A rule's problem becomes a finding, with the places where its values were written.

        InputError where the target has too many. Of one rule, those beyond a fifth of that are left out.
        """
        self.told[rule.id] += 1
        if self.told[rule.id] > _OF_ONE_RULE:
            if self.told[rule.id] == _OF_ONE_RULE + 1:
                most = f"has more than {_OF_ONE_RULE} findings of {rule.id}: the rest is left out"
                self.fail(InputError(most, self.target.name))
            return
        if len(self.findings) >= limits.FINDINGS:
            raise InputError(f"has more than {limits.FINDINGS} findings: no more rules are asked", self.target.name)
        finding = finding_of(rule, problem, origin, self.target.name)
        if self.target.kind is TargetKind.JOB and (key := _default_at(finding.place.position, sources)):
            own = f"{key} stands here as a default: a job sets it in its own job.yaml"
            finding = replace(finding, help=f"{finding.help}; {own}" if finding.help else own)
        if problem.fix is not None and self.target.name != STDIN:
            from trainyard.fixes.plan import plan

            folder = self.target.name if self.target.kind is TargetKind.JOB else ""
            finding = replace(finding, fix=plan(problem.fix, problem.help, origin, sources, folder))
        self.findings.append(finding)
        if rule.id == SECRET:
            from trainyard.rules.common.plain_secrets import known_secrets

            text = str(lookup(problem.spot.object.data, problem.spot.path))
            self.secrets |= {text, *known_secrets(text)}


class Broke(Fault):
    """A rule broke on one target."""


def found_by_rules(
    rules: Mapping[str, Rule], unit: Unit, doing: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Rule, Problem]]:
    """What every rule says of a unit; `doing` is told its id before. Broke where a rule breaks."""
    from trainyard.rules.index import problems
    from trainyard.workload.of_unit import workloads

    jobs = tuple(workloads(unit))
    for rule in rules.values():
        if rule.declared:
            continue
        doing(rule.id)
        try:
            for problem in problems(rule, unit, jobs):
                yield rule, problem
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise Broke(f"{rule.id} broke: {type(error).__name__}: {error}") from error
