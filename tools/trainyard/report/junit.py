"""Findings for test viewers: a suite with one case per job, in the XML of JUnit."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import TextIO

from trainyard.findings.finding import Finding
from trainyard.report import Look, Report
from trainyard.report.escape import visible
from trainyard.report.text import finding_lines, input_error_line
from trainyard.report.where import file_of

_SUITE = "lint-jobs"


def write(report: Report, out: TextIO, _look: Look) -> None:
    """A case fails once, as the form has it, with all findings of its job that fail the run; the rest is its output.

    A job with bad input is an error, whatever else was found in it. What neither fails nor errs has passed.
    """
    cases: dict[str, list[Finding]] = {unit: [] for unit in report.units}
    for finding in report.findings:
        for unit in finding.jobs or (file_of(finding.place) or _SUITE,):
            cases.setdefault(unit, []).append(finding)
    suite = ET.Element("testsuite", name=_SUITE, tests=str(len(cases)), time=f"{report.seconds:.3f}")
    totals = {"failure": 0, "error": 0}
    in_part = report.in_part()
    for name, findings in cases.items():
        case = ET.SubElement(suite, "testcase", classname=_SUITE, name=visible(name))
        if failing := list(filter(report.fails, findings)):
            tag = "error" if any(finding.input_error for finding in failing) else "failure"
            totals[tag] += 1
            told = ET.SubElement(case, tag, type=_kinds(failing), message=_messages(failing))
            told.text = "".join(_body(finding, report) for finding in failing)
        others = [_body(finding, report) for finding in findings if not report.fails(finding)]
        if missing := in_part.get(name):
            others.append(visible("not judged: " + ", ".join(f"{each.what} ({each.why})" for each in missing)))
        if others:
            ET.SubElement(case, "system-out").text = "\n".join(others)
    suite.set("failures", str(totals["failure"]))
    suite.set("errors", str(totals["error"]))
    ET.indent(suite)
    out.write(f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suite, encoding="unicode")}\n')


def _kinds(findings: Sequence[Finding]) -> str:
    return visible(", ".join(dict.fromkeys(f"{finding.rule} {finding.name}" for finding in findings)))


def _messages(findings: Sequence[Finding]) -> str:
    first = visible(findings[0].message)
    return first if len(findings) == 1 else f"{first} (and {len(findings) - 1} more)"


def _body(finding: Finding, report: Report) -> str:
    lines = [input_error_line(finding)] if finding.input_error else finding_lines(finding, report, Look())
    return "\n".join(["", *lines, ""])
