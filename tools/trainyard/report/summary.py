"""One line that sums a run up."""

from trainyard.finding import Severity
from trainyard.report import Report


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
    """`3 errors, 1 warning in 2 of 14 jobs (12 unchanged since the last run)`, or `14 jobs pass`."""
    bad_input = sum(finding.input_error for finding in report.findings)
    parts = [count(bad_input, "bad input")] if bad_input else []
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
    notes = []
    if report.cached:
        notes.append(f"{report.cached} unchanged since the last run")
    if report.suppressed:
        notes.append(f"{count(report.suppressed, 'finding')} suppressed")
    return f"{text} ({', '.join(notes)})" if notes else text
