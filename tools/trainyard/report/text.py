"""Findings for people: the source line, carets under what is wrong, and the remedy."""

from collections.abc import Iterator
from typing import TextIO

from trainyard.findings.finding import Finding, Place, Severity
from trainyard.home import as_called
from trainyard.report import Look, Report
from trainyard.report.escape import visible, visible_lines
from trainyard.report.snippet import snippet
from trainyard.report.summary import fixes_made, not_judged, summary
from trainyard.report.where import job_list, position_of, unknown_place

_NARROWEST = 20
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_BLUE = "\x1b[1;34m"
_SEVERITY = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.INFO: "\x1b[1;36m"}


def write(report: Report, out: TextIO, look: Look) -> None:
    """Bad input first, a line each; then the findings, then one line that sums up."""
    bad_input = [finding for finding in report.findings if finding.input_error]
    out.writelines(input_error_line(finding, look.color) + "\n" for finding in bad_input)
    if bad_input:
        out.write("\n")
    for finding in report.findings:
        if not finding.input_error:
            out.writelines(f"{line}\n" for line in finding_lines(finding, report, look))
            out.write("\n")
    out.writelines(f"{line}\n" for line in (*fixes_made(report), *not_judged(report)))
    out.write(summary(report) + "\n")


def input_error_line(finding: Finding, color: bool = False) -> str:
    """`error: file:line:column: message`, and the remedy in brackets where there is one."""
    position = position_of(finding.place)
    if position is not None:
        where = f"{position.file}:{position.line}:{position.column}"
    else:
        where = unknown_place(finding.place, finding.jobs) if finding.place.position or finding.jobs else ""
    remedy = f" ({finding.help})" if finding.help else ""
    parts = (_paint("error", _SEVERITY[Severity.ERROR], color), visible(where), visible(finding.message + remedy))
    return ": ".join(part for part in parts if part)


def finding_lines(finding: Finding, report: Report, look: Look) -> Iterator[str]:
    """One finding, line by line."""
    known = [position.line for place in (finding.place, *finding.related) if (position := position_of(place))]
    gutter = len(str(max(known, default=0)))
    kind = _paint(f"{finding.severity.label}[{visible(finding.rule)}]", _SEVERITY[finding.severity], look.color)
    yield f"{kind} {_paint(visible(finding.message), _BOLD, look.color)}"
    yield from _place_lines("-->", finding.place, _SEVERITY[finding.severity], gutter, finding, report, look)
    for place in finding.related:
        yield from _place_lines(":::", place, _BLUE, gutter, finding, report, look)
    for name, lines in _notes(finding):
        yield f"{' ' * gutter}{_paint('=', _BLUE, look.color)} {name}: {''.join(lines[:1])}"
        yield from (" " * (gutter + len(name) + 4) + line for line in lines[1:])


def _place_lines(
    arrow: str, place: Place, code: str, gutter: int, finding: Finding, report: Report, look: Look
) -> Iterator[str]:
    position = position_of(place)
    label = visible(place.label)
    bar = " " * (gutter + 1) + _paint("|", _BLUE, look.color)
    where = f"{position.file}:{position.line}:{position.column}" if position else unknown_place(place, finding.jobs)
    yield f"{' ' * gutter}{_paint(arrow, _BLUE, look.color)} {visible(where)}"
    line = report.line_of(position.file, position.line) if position else None
    if position is None or line is None:
        if label:
            yield f"{bar} {_paint(label, code, look.color)}"
        return
    shown = snippet(line, position, label, max(_NARROWEST, look.width - gutter - 3))
    if arrow == "-->":
        yield bar
    yield f"{_paint(f'{position.line:>{gutter}} |', _BLUE, look.color)} {shown.source}".rstrip()
    for blanks, words in shown.under:
        yield f"{bar} {blanks}{_paint(words, code, look.color)}"


def _notes(finding: Finding) -> Iterator[tuple[str, list[str]]]:
    if listed := job_list(finding):
        yield listed[0], [visible(listed[1])]
    if finding.help:
        yield "help", visible_lines(finding.help)
    yield "see", [as_called(f"tools/lint-jobs explain {visible(finding.rule)}")]


def _paint(text: str, code: str, color: bool) -> str:
    return f"{code}{text}{_RESET}" if color and text else text
