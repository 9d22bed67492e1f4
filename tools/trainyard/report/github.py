"""Findings as commands of GitHub Actions, which shows them on the changed lines of a pull request."""

from typing import TextIO

from trainyard.findings.finding import Finding, Severity
from trainyard.home import as_called
from trainyard.report import Look, Report
from trainyard.report.escape import visible, visible_lines
from trainyard.report.summary import count, summary
from trainyard.report.where import job_list, position_of, unknown_place

TITLE = "lint-jobs"
SHOWN = 10
"""How many annotations of one level GitHub shows of one step."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def write(report: Report, out: TextIO, _look: Look) -> None:
    """A line a finding, after a first line that sums up and says what GitHub will not show."""
    commands = [(_LEVELS[finding.severity], _command(finding)) for finding in report.findings]
    text = summary(report)
    for level in _LEVELS.values():
        number = sum(level == other for other, _ in commands)
        shown = SHOWN if level != "notice" else SHOWN - 1
        if number > shown:
            text += f"; of {count(number, level)} GitHub shows the first {shown}, all are in the log of this step"
    out.write(f"::notice title={TITLE}::{_data(visible(text))}\n")
    out.writelines(f"{command}\n" for _, command in commands)


def _command(finding: Finding) -> str:
    position = position_of(finding.place)
    properties = {"title": f"{finding.rule} {finding.name}"}
    message = [visible(finding.message)]
    if position is not None:
        end = position.column + max(position.length, 1)
        properties |= {"file": position.file, "line": str(position.line), "col": str(position.column)}
        properties["endColumn"] = str(end)
    elif finding.place.position is not None:
        properties["file"] = finding.place.position.file
    else:
        message.insert(0, visible(unknown_place(finding.place, finding.jobs)))
    if finding.place.label:
        message.append(visible(finding.place.label))
    for place in finding.related:
        at = position_of(place)
        where = f"{at.file}:{at.line}:{at.column}" if at else unknown_place(place, finding.jobs)
        message.append(visible(f"{where}: {place.label}" if place.label else where))
    if listed := job_list(finding):
        message.append(visible(": ".join(listed)))
    if finding.help:
        message += visible_lines(f"help: {finding.help}")
    if finding.fix is not None and finding.fix.edits:
        option = "--fix" if finding.fix.safe else "--fix=unsafe"
        message += visible_lines(as_called(f"fixed by: tools/lint-jobs {option}"))
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS[finding.severity]} {shown}::{_data(chr(10).join(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(visible(value)).replace(":", "%3A").replace(",", "%2C")
