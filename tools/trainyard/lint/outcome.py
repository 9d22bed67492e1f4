"""What a run comes to: the judgements of all targets, merged, with suppressions applied, sorted and without secrets."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.findings.consequences import without_echoes
from trainyard.findings.finding import Finding, NotJudged, Position
from trainyard.findings.merged import merged, order
from trainyard.findings.suppress import Guard, SuppressedFinding, Suppression, apply
from trainyard.lint.masked import MaskedLines
from trainyard.repository.discover import Target, TargetKind, has_kustomization
from trainyard.yaml.sources import Sources

if TYPE_CHECKING:
    from trainyard.gitops.exempt import Exemption


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one target's judgement came to."""

    target: Target
    findings: tuple[Finding, ...]
    suppressions: tuple[Suppression, ...]
    complete: bool
    """True where every rule was asked. Broken input and a wrong job.yaml end it before."""
    cached: bool = False
    not_judged: tuple[NotJudged, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found, ready to be reported."""

    findings: tuple[Finding, ...]
    units: tuple[str, ...]
    """What was judged, and what could not be."""
    suppressed: tuple[SuppressedFinding, ...]
    """What was found and is not told, with the reasons."""
    cached: int
    line_of: Callable[[str, int], str | None]
    note: str
    """Why nothing was judged, where that is right."""
    not_judged: tuple[NotJudged, ...] = ()
    """Parts of what was judged that no rule could see into."""


def conclude(
    sources: Sources,
    beside: Sequence[Finding],
    judgements: Sequence[Judgement],
    whole: bool,
    uncounted: Collection[str] = (),
    exempt: Sequence["Exemption"] = (),
) -> Outcome:
    """Everything that was found: `beside` are findings about no judged target.

    `whole` says that every job of the repository was to be judged, so that every suppression can be called unused.
    `uncounted` are targets that are named only where something was found in them. `exempt` is what the owners of the
    clusters silence.
    """
    told = [*beside, *(finding for judgement in judgements for finding in judgement.findings)]
    findings: list[Finding] = merged(told)
    silenced: list[SuppressedFinding] = []
    suppressions = {s: None for judgement in judgements for s in judgement.suppressions}
    if suppressions or exempt:
        from trainyard.gitops.exempt import exempted
        from trainyard.rules.index import all_rules

        rules = all_rules()
        whole = whole and all(judgement.complete for judgement in judgements)
        files = {suppression.file for suppression in suppressions}
        complete = {file for file in files if whole or _has_one_reader(sources.root, file, judgements)}
        jobs = {each.target.name: each.complete for each in judgements if each.target.kind is TargetKind.JOB}
        guard = Guard({rule.id for rule in rules.values() if rule.guarded}, tuple(jobs))
        findings, by_comments = apply(findings, suppressions, rules=rules, complete_files=complete, guard=guard)
        known = [name for name, is_complete in jobs.items() if is_complete and whole]
        findings, by_owners = exempted(findings, exempt, rules, known)
        silenced = [*by_comments, *by_owners]
        readers: dict[Position, set[str]] = {}
        for judgement in judgements:
            for suppression in judgement.suppressions:
                readers.setdefault(suppression.position, set()).add(judgement.target.name)
        findings = [_with_readers(finding, readers) for finding in findings]
    findings = without_echoes(findings)
    reached = {job for finding in findings for job in finding.jobs}
    counted = [each for each in judgements if each.target.name not in uncounted or each.target.name in reached]
    named = dict.fromkeys(judgement.target.name for judgement in counted)
    named.update(dict.fromkeys(job for finding in beside for job in finding.jobs))
    return Outcome(
        findings=tuple(sorted(findings, key=order)),
        units=tuple(named),
        suppressed=tuple(sorted(silenced, key=lambda each: order(each.finding))),
        cached=sum(judgement.cached for judgement in counted),
        line_of=MaskedLines(sources, told).line,
        note="",
        not_judged=tuple(each for judgement in judgements for each in judgement.not_judged),
    )


def _has_one_reader(root: Path, file: str, judgements: Iterable[Judgement]) -> bool:
    """True where the one target that reads a file was judged: the job whose folder it lies in, or the file."""
    for judgement in judgements:
        target = judgement.target
        if judgement.complete and target.kind is TargetKind.JOB and file.startswith(f"{target.name}/"):
            return True
        if judgement.complete and file in target.files:
            return not any(has_kustomization(root / above) for above in Path(file).parents)
    return False


def _with_readers(finding: Finding, readers: Mapping[Position, Iterable[str]]) -> Finding:
    """A finding about a suppression, with the jobs that read it."""
    position = finding.place.position
    if finding.jobs or position is None:
        return finding
    return replace(finding, jobs=tuple(sorted(readers.get(position, ()))))
