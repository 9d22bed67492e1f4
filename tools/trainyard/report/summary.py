"""One line that sums a run up."""

from collections import Counter
from collections.abc import Iterator

from trainyard.findings.finding import BROKE, Finding, Severity
from trainyard.report import Report
from trainyard.report.escape import visible


def count(number: int, noun: str) -> str:
    """`1 error`, `3 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def totals(report: Report) -> dict[Severity, int]:
    """How many findings of each severity, the most severe first; bad input is not among them."""
    found = dict.fromkeys(sorted(Severity, reverse=True), 0)
    for finding in report.findings:
        if not finding.input_error:
            found[finding.severity] += 1
    return found


def summary(report: Report) -> str:
    """`3 errors in 2 of 14 jobs (12 unchanged since the last run)`, or `14 jobs pass, 2 only in part`."""
    faults = sum(finding.rule == BROKE for finding in report.findings)
    bad_input = sum(finding.input_error for finding in report.findings) - faults
    parts = [f"{count(faults, 'fault')} of the linter"] if faults else []
    parts += [count(bad_input, "bad input")] if bad_input else []
    for severity, number in totals(report).items():
        if number:
            parts.append(f"{number} info" if severity == Severity.INFO else count(number, severity.label))
    units = count(len(report.units), report.noun)
    text = ", ".join(parts)
    if not parts and report.note:
        text = report.note
    elif not parts:
        text = f"{units} {'passes' if len(report.units) == 1 else 'pass'}"
    elif affected := len(report.affected()):
        text += f" in {affected} of {units}"
    in_part = len(report.in_part())
    if in_part and not parts:
        text += f", {in_part} only in part"
    notes = []
    if report.cached:
        notes.append(f"{report.cached} unchanged since the last run")
    if report.suppressed:
        notes.append(f"{count(len(report.suppressed), 'finding')} suppressed: {_rules(report)}")
    if in_part and parts:
        notes.append(f"{in_part} judged only in part")
    if fixable := _fixable(report):
        notes.append(fixable)
    return f"{text} ({', '.join(notes)})" if notes else text


def _rules(report: Report) -> str:
    """`NCL003, SEC005 x2`: which rules were silenced."""
    times = Counter(silenced.finding.rule for silenced in report.suppressed)
    return ", ".join(visible(rule) if number == 1 else f"{visible(rule)} x{number}" for rule, number in times.items())


def not_judged(report: Report) -> Iterator[str]:
    """What was not judged of each unit, a line each."""
    for unit, missing in report.in_part().items():
        parts = (f"{each.what} ({each.why})" for each in missing)
        yield f"not judged of {visible(unit)}: {visible(', '.join(parts))}"


def fixes_made(report: Report, verb: str = "fixed") -> Iterator[str]:
    """What was fixed where, and what was not and why, a line each."""
    by_file: dict[str, Counter[str]] = {}
    for finding in report.fixed:
        by_file.setdefault(finding.fix.edits[0].file if finding.fix else "", Counter())[finding.rule] += 1
    for file, rules in sorted(by_file.items()):
        named = ", ".join(rule if times == 1 else f"{rule} x{times}" for rule, times in sorted(rules.items()))
        yield f"{verb} {rules.total()} in {visible(file)} ({named})"
    for finding, why in report.unfixed:
        yield f"not fixed: {visible(finding.rule)} at {visible(_where(finding))}: {visible(why)}"


def _where(finding: Finding) -> str:
    at = finding.place.position
    return finding.place.object if at is None else f"{at.file}:{at.line}:{at.column}"


def _fixable(report: Report) -> str:
    """`2 fixable with --fix, 1 with --fix=unsafe`; empty after fixing, and where nothing is."""
    if report.fixed or report.unfixed:
        return ""
    fixes = [finding.fix for finding in report.findings if finding.fix is not None and finding.fix.edits]
    safe = sum(fix.safe for fix in fixes)
    words = [f"{safe} fixable with --fix"] if safe else []
    if unsafe := len(fixes) - safe:
        words.append(f"{unsafe} with --fix=unsafe" if safe else f"{unsafe} fixable with --fix=unsafe")
    return ", ".join(words)
