"""From targets to findings: the one place where the stages meet."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from trainyard import codec
from trainyard.cache import Cache, Digests
from trainyard.discover import STDIN, Discovery, Target, TargetKind
from trainyard.errors import InputError
from trainyard.fieldpath import Path as FieldPath
from trainyard.fieldpath import format_path
from trainyard.finding import Finding, Place, Position, Severity
from trainyard.objects import Object, Spot
from trainyard.rules.registry import Problem, Rule, declare
from trainyard.sources import Sources
from trainyard.suppress import Suppression
from trainyard.unit import Unit

CHUNK = 128
"""Units that are in memory at once; one kubeconform process checks them all."""

BAD_INPUT = declare(
    "INP001",
    "bad-input",
    Severity.ERROR,
    """The input cannot be judged, so nothing is said about what it would do.

    Broken YAML, a key that stands twice, a base that does not exist, a patch that hits nothing, a file that is too large or
    cannot be read, a kustomization that reaches out of the repository or onto the network. The exit code is 2.

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


class Origin(Protocol):
    """Knows where the fields of a unit's objects were written."""

    def position(self, rendered: Object, path: FieldPath) -> Position | None:
        """The place of a field, or of the nearest one above it that is there; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one target's judgement came to."""

    target: Target
    findings: tuple[Finding, ...]
    suppressions: tuple[Suppression, ...]
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found, ready to be reported."""

    findings: tuple[Finding, ...]
    units: tuple[str, ...]
    suppressed: int
    cached: int
    line_of: Callable[[str, int], str | None]


Progress = Callable[[str], None]


def lint(
    root: Path,
    found: Discovery,
    *,
    changed: str | None = None,
    use_cache: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
    stdin: str | None = None,
) -> Outcome:
    """Judge every target. Input errors are findings too, with `input_error` set, and stop their own target only."""
    from trainyard.kustomization import files_read

    sources = Sources(root)
    if stdin is not None:
        sources.add(STDIN, stdin)
    digests = Digests(root)
    run = _Run(root, sources, digests, Cache(root, digests) if use_cache else None, workers, progress)
    targets = list(found.targets)
    edits: list[Finding] = []
    if changed is not None:
        from trainyard.changed import changed_files
        from trainyard.edited import edited_jobs

        differing = changed_files(root, changed)
        targets = [target for target in targets if run.touched(target, differing, files_read)]
        jobs = [target.name for target in targets if target.kind is TargetKind.JOB]
        edits = edited_jobs(root, changed, jobs, sources)
    judgements = run.judge(targets)
    unread = [input_finding(error, "") for error in found.errors]
    return run.outcome(unread + edits, judgements, found.whole and changed is None)


def input_finding(error: InputError, unit: str) -> Finding:
    """The finding that stands for input which cannot be judged."""
    place = Place("", "", Position(error.file, error.line, error.column))
    jobs = (unit,) if unit else ()
    return Finding(
        BAD_INPUT.id, BAD_INPUT.name, BAD_INPUT.severity, error.message, place, help=error.help, jobs=jobs, input_error=True
    )


class _Run:
    """The state of one run: what was read, and how far it is."""

    def __init__(
        self,
        root: Path,
        sources: Sources,
        digests: Digests,
        cache: Cache | None,
        workers: int | None,
        progress: Progress | None,
    ) -> None:
        self.root = root
        self.sources = sources
        self.digests = digests
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def touched(
        self, target: Target, differing: frozenset[str], files_read: Callable[[Path, str, Sources], frozenset[str]]
    ) -> bool:
        """True where a target reads one of the files, or cannot be followed, or the linter itself differs."""
        if any(file.startswith(("tools/trainyard/", "schemas/")) for file in differing):
            return True
        if target.kind is TargetKind.MANIFESTS:
            return not differing.isdisjoint(target.files)
        if any(file.startswith(f"{target.name}/") for file in differing):
            return True
        try:
            return not differing.isdisjoint(files_read(self.root, target.name, self.sources))
        except InputError:
            return True

    def judge(self, targets: Sequence[Target]) -> list[Judgement]:
        """One judgement a target, in their order."""
        done: dict[str, Judgement] = {}
        fresh: list[Target] = []
        for target in targets:
            kept = self.cache.get(_key(target)) if self.cache is not None and target.name != STDIN else None
            if kept is None:
                fresh.append(target)
            else:
                findings, suppressions = codec.decode(kept)
                done[target.name] = Judgement(target, findings, suppressions, cached=True)
        for start in range(0, len(fresh), CHUNK):
            for judgement in self._judge_chunk(fresh[start : start + CHUNK]):
                done[judgement.target.name] = judgement
                if self.progress:
                    self.progress(f"judged {len(done)} of {len(targets)}")
        if self.progress:
            self.progress("")
        return [done[target.name] for target in targets]

    def _judge_chunk(self, targets: Sequence[Target]) -> Iterator[Judgement]:
        from trainyard import schema
        from trainyard.rules import all_rules

        results: dict[str, _Result] = {target.name: _Result(target) for target in targets}
        made = [(result, made) for result in results.values() if (made := self._manifests(result)) is not None]
        made += self._rendered([result for result in results.values() if result.target.kind is not TargetKind.MANIFESTS])
        rules = all_rules()
        for problem in schema.check([unit for _, (unit, _) in made]):
            result, (_, origin) = made[problem.unit_index]
            spot = Spot(problem.object, problem.path)
            result.add(rules[problem.rule_id], Problem(problem.message, spot, help=problem.help), origin)
        for result, (unit, origin) in made:
            for rule, problem in found_by_rules(rules, unit):
                result.add(rule, problem, origin)
        for result in results.values():
            yield self._finish(result)

    def _manifests(self, result: "_Result") -> "tuple[Unit, Origin] | None":
        from trainyard.manifests import read_manifests

        target = result.target
        if target.kind is not TargetKind.MANIFESTS:
            return None
        try:
            made = read_manifests(target.name, target.files, self.sources)
        except InputError as error:
            result.fail(error)
            return None
        result.reads = {file: self.digests.of(file) for file in target.files}
        return made

    def _rendered(self, results: "Sequence[_Result]") -> "list[tuple[_Result, tuple[Unit, Origin]]]":
        from trainyard.render import render
        from trainyard.rendered import Prepared

        ready: list[tuple[_Result, Prepared]] = []
        for result in results:
            try:
                prepared = Prepared(self.sources, result.target)
            except InputError as error:
                result.fail(error)
                continue
            result.findings = prepared.findings
            if prepared.may_render:
                ready.append((result, prepared))
        made: list[tuple[_Result, tuple[Unit, Origin]]] = []
        renderings = render(self.root, [result.target.name for result, _ in ready], workers=self.workers)
        for (result, prepared), rendering in zip(ready, renderings, strict=True):
            try:
                made.append((result, prepared.unit(rendering)))
            except InputError as error:
                result.fail(error)
                continue
            result.reads = dict(rendering.reads)
        return made

    def _finish(self, result: "_Result") -> Judgement:
        from trainyard.suppress import find

        places = {place.position.file for finding in result.findings for place in (finding.place,) if place.position}
        files = {file for file, digest in result.reads.items() if len(digest) == 64} | places
        suppressions = tuple(
            suppression
            for file in sorted(files)
            if "lint-jobs:" in (text := self._text(file))
            for suppression in find(file, text)
        )
        broken = any(finding.input_error for finding in result.findings)
        if self.cache is not None and result.reads and not broken:
            listings = [result.target.name] if result.target.kind is TargetKind.JOB else []
            kept = codec.encode(result.findings, suppressions)
            self.cache.put(_key(result.target), result.reads, listings, kept)
        return Judgement(result.target, tuple(result.findings), suppressions)

    def _text(self, file: str) -> str:
        try:
            return self.sources.text(file)
        except InputError:
            return ""

    def outcome(self, beside: list[Finding], judgements: list[Judgement], whole: bool) -> Outcome:
        """Merge what several jobs share, apply suppressions, and sort. `whole`: every job of the repository was judged."""
        from trainyard.rules import all_rules
        from trainyard.suppress import apply

        findings = merged(beside + [finding for judgement in judgements for finding in judgement.findings])
        suppressions = {s: None for judgement in judgements for s in judgement.suppressions}
        complete = frozenset(s.file for s in suppressions if whole or _owned(s.file, judgements))
        kept, suppressed = apply(findings, suppressions, rules=all_rules(), complete_files=complete)
        return Outcome(
            findings=tuple(sorted(kept, key=_order)),
            units=tuple(judgement.target.name for judgement in judgements),
            suppressed=suppressed,
            cached=sum(judgement.cached for judgement in judgements),
            line_of=self._line,
        )

    def _line(self, file: str, line: int) -> str | None:
        lines = self.sources.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else None


class _Result:
    """What is known of a target while it is judged."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.findings: list[Finding] = []
        self.reads: dict[str, str] = {}

    def fail(self, error: InputError) -> None:
        """The target cannot be judged further."""
        self.findings.append(input_finding(error, self.target.name))

    def add(self, rule: Rule, problem: Problem, origin: Origin) -> None:
        """A rule's problem becomes a finding, with the places where its values were written."""
        place, *related = [_place(spot, origin) for spot in (problem.spot, *problem.related)]
        unit = (self.target.name,)
        finding = Finding(
            rule.id, rule.name, rule.severity, problem.message, place, tuple(related), problem.help, unit
        )
        self.findings.append(finding)


def found_by_rules(rules: dict[str, Rule], unit: Unit) -> Iterator[tuple[Rule, Problem]]:
    """What every rule says of a unit."""
    from trainyard.rules import problems
    from trainyard.workload import workloads

    jobs = tuple(workloads(unit))
    for rule in rules.values():
        for problem in problems(rule, unit, jobs):
            yield rule, problem


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for one cause: what several jobs get from the same line is told once, with the jobs it reaches."""
    by_cause: dict[Any, Finding] = {}
    for finding in findings:
        position = finding.place.position
        known = position is not None and position.line > 0
        cause = (
            finding.rule,
            position if known else finding.place,
            finding.place.path,
            finding.place.object.partition("/")[0],
            "" if known else finding.message,
            finding.input_error and finding.message,
        )
        first = by_cause.get(cause)
        if first is None:
            by_cause[cause] = finding
        else:
            by_cause[cause] = replace(first, jobs=tuple(sorted({*first.jobs, *finding.jobs})))
    return list(by_cause.values())


def _place(spot: Spot, origin: Origin) -> Place:
    path = format_path(spot.object.data, spot.path)
    return Place(spot.object.title, path, origin.position(spot.object, spot.path), spot.label)


def _order(finding: Finding) -> tuple[Any, ...]:
    position = finding.place.position
    where = (position.file, position.line, position.column) if position else (finding.jobs[0] if finding.jobs else "", 0, 0)
    return (not finding.input_error, *where, finding.rule, finding.message)


def _owned(file: str, judgements: Sequence[Judgement]) -> bool:
    """True where no job but those that were judged reads a file: it lies in the folder of one, or is one."""
    return any(file in (j.target.name, *j.target.files) or file.startswith(f"{j.target.name}/") for j in judgements)


def _key(target: Target) -> str:
    return "\0".join((target.kind.value, target.name, *target.files))
