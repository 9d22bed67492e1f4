"""One finding for one cause: what several jobs get from the same line is told once, with the jobs that it reaches."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from trainyard.findings.finding import Finding, Fix


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of several jobs, each cause once, in order. What a job is told twice in the same words is told once."""
    by_cause: dict[Hashable, Finding] = {}
    told: set[Hashable] = set()
    times: Counter[Hashable] = Counter()
    for finding in findings:
        words = _words(finding)
        if words in told:
            continue
        told.add(words)
        within = (_cause(finding), finding.jobs)
        cause = (_cause(finding), times[within])
        times[within] += 1
        first = by_cause.setdefault(cause, finding)
        if first is not finding:
            jobs = tuple(sorted({*first.jobs, *finding.jobs}))
            severity = max(first.severity, finding.severity)
            by_cause[cause] = replace(first, severity=severity, jobs=jobs, fix=_agreed(first.fix, finding.fix))
    return list(by_cause.values())


def order(finding: Finding) -> tuple[Any, ...]:
    """Sorts as reports print: bad input first, then by file, line and column."""
    position = finding.place.position
    job = finding.jobs[0] if finding.jobs else ""
    where = (position.file, position.line, position.column) if position else (job, 0, 0)
    return (not finding.input_error, *where, finding.rule, finding.message, finding.place.path)


def _agreed(one: Fix | None, other: Fix | None) -> Fix | None:
    """One fix of what several jobs share; none where each would write something else there."""
    if one is None or other is None or one.edits == other.edits:
        return one and other
    return replace(one, edits=(), refused="the jobs that share it need different values here: edit it by hand")


def _words(finding: Finding) -> Hashable:
    """What a reader sees of a finding. Fields that an alias or the wiring fills of one line are one to them."""
    position = finding.place.position
    if position is None or position.line == 0 or finding.input_error:
        return finding
    return finding.rule, finding.severity, finding.message, position, finding.place.label, finding.jobs


def _cause(finding: Finding) -> Hashable:
    """What findings of two jobs share if they come from the same line. Words differ, since they name the job."""
    position = finding.place.position
    kind = finding.place.object.partition("/")[0]
    if position is None or position.line == 0 or finding.input_error:
        return finding.rule, finding.place, finding.message
    return finding.rule, position, finding.place.path, kind
