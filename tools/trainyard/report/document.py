"""Findings for programs: one JSON document, described by findings.schema.json."""

import json
from typing import Any, TextIO

from trainyard.findings.finding import Finding, Fix, NotJudged, Place, Severity
from trainyard.findings.suppress import SuppressedFinding
from trainyard.report import Look, Report
from trainyard.report.escape import json_text, whole
from trainyard.report.summary import totals
from trainyard.report.where import file_of, position_of

VERSION = 1


def write(report: Report, out: TextIO, _look: Look) -> None:
    """One document, indented, in ASCII."""
    out.write(json_text(json.dumps(document(report), indent=2)) + "\n")


def document(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    found = totals(report)
    return {
        "version": VERSION,
        "findings": [_finding(finding) for finding in report.findings],
        "fixed": [_fixed(finding) for finding in report.fixed],
        "suppressed": [_suppressed(silenced) for silenced in report.suppressed],
        "not_judged": [_not_judged(each) for each in report.not_judged],
        "summary": {
            "jobs": len(report.units),
            "jobs_with_findings": len(report.affected()),
            "jobs_in_part": len(report.in_part()),
            "errors": found[Severity.ERROR],
            "warnings": found[Severity.WARNING],
            "infos": found[Severity.INFO],
            "bad_inputs": sum(finding.input_error for finding in report.findings),
            "suppressed": len(report.suppressed),
            "unchanged": report.cached,
            "seconds": round(report.seconds, 3),
            "fail_on": report.fail_on.label,
            "exit_code": report.exit_code,
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": whole(finding.rule),
        "name": whole(finding.name),
        "severity": finding.severity.label,
        "message": whole(finding.message),
        "label": whole(finding.place.label),
        **_place(finding.place),
        "jobs": [whole(job) for job in finding.jobs],
        "related": [{"message": whole(place.label), **_place(place)} for place in finding.related],
        "help": whole(finding.help),
        "input_error": finding.input_error,
        "fix": None if finding.fix is None else _fix(finding.fix),
    }


def _suppressed(silenced: SuppressedFinding) -> dict[str, Any]:
    finding, by = silenced.finding, silenced.by
    return {
        "rule": whole(finding.rule),
        "severity": finding.severity.label,
        "message": whole(finding.message),
        **_place(finding.place),
        "jobs": [whole(job) for job in finding.jobs],
        "reason": whole(silenced.reason),
        "by": {"file": whole(by.file), "line": by.line, "column": by.column},
        "listed": silenced.is_listed,
    }


def _fixed(finding: Finding) -> dict[str, Any]:
    return {
        "rule": whole(finding.rule),
        "message": whole(finding.message),
        **_place(finding.place),
        "fix": whole(finding.fix.says) if finding.fix is not None else "",
    }


def _not_judged(each: NotJudged) -> dict[str, Any]:
    return {"job": whole(each.job), "what": whole(each.what), "why": whole(each.why), **_place(each.place)}


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [
        {
            "file": whole(edit.file),
            "line": edit.line,
            "column": edit.column,
            "end_line": edit.end_line,
            "end_column": edit.end_column,
            "text": whole(edit.text),
        }
        for edit in fix.edits
    ]
    return {"description": whole(fix.says), "safe": fix.safe, "edits": edits, "refused": whole(fix.refused)}


def _place(place: Place) -> dict[str, Any]:
    position = position_of(place)
    file = file_of(place)
    return {
        "file": None if file is None else whole(file),
        "line": position.line if position else None,
        "column": position.column if position else None,
        "object": whole(place.object),
        "path": whole(place.path),
    }
