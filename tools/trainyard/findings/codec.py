"""Findings and suppressions as plain JSON data and back, for the cache and from process to process."""

import json
from collections.abc import Sequence
from typing import Any

from trainyard.findings.finding import Edit, Finding, Fix, NotJudged, Place, Position, Severity
from trainyard.findings.suppress import Suppression


def encode(
    findings: Sequence[Finding], suppressions: Sequence[Suppression], not_judged: Sequence[NotJudged] = ()
) -> Any:
    """What `decode` reads."""
    return {
        "not_judged": [[each.job, each.what, each.why, _place(each.place)] for each in not_judged],
        "findings": [_finding(finding) for finding in findings],
        "suppressions": [_suppression(s) for s in suppressions],
    }


def decode(kept: Any) -> tuple[tuple[Finding, ...], tuple[Suppression, ...], tuple[NotJudged, ...]]:
    """Findings, suppressions and what was not judged, as they were.

    ValueError, KeyError or TypeError where `kept` is something else.
    """
    findings = tuple(
        Finding(
            rule=item["rule"],
            name=item["name"],
            severity=Severity(item["severity"]),
            message=item["message"],
            place=_read_place(item["place"]),
            related=tuple(_read_place(place) for place in item["related"]),
            help=item["help"],
            jobs=tuple(item["jobs"]),
            input_error=item["input_error"],
            fix=_read_fix(item["fix"]),
        )
        for item in kept["findings"]
    )
    not_judged = tuple(NotJudged(job, what, why, _read_place(at)) for job, what, why, at in kept["not_judged"])
    return findings, tuple(_read_suppression(item) for item in kept["suppressions"]), not_judged


def packed(
    findings: Sequence[Finding],
    suppressions: Sequence[Suppression],
    complete: bool,
    not_judged: Sequence[NotJudged] = (),
) -> bytes:
    """What `unpacked` reads."""
    return json.dumps([encode(findings, suppressions, not_judged), complete]).encode()


def unpacked(sent: bytes) -> tuple[tuple[Finding, ...], tuple[Suppression, ...], bool, tuple[NotJudged, ...]]:
    """Findings, suppressions, whether they are complete, and what was not judged, from another process."""
    kept, complete = json.loads(sent)
    findings, suppressions, not_judged = decode(kept)
    return findings, suppressions, complete, not_judged


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": int(finding.severity),
        "message": finding.message,
        "place": _place(finding.place),
        "related": [_place(place) for place in finding.related],
        "help": finding.help,
        "jobs": finding.jobs,
        "input_error": finding.input_error,
        "fix": None if (fix := finding.fix) is None else [fix.says, fix.safe, fix.refused, *map(_edit, fix.edits)],
    }


def _edit(edit: Edit) -> list[Any]:
    return [edit.file, edit.line, edit.column, edit.end_line, edit.end_column, edit.text, edit.digest]


def _read_fix(kept: list[Any] | None) -> Fix | None:
    if kept is None:
        return None
    says, safe, refused, *edits = kept
    return Fix(says, safe, tuple(Edit(*edit) for edit in edits), refused)


def _place(place: Place) -> list[Any]:
    at = place.position
    return [place.object, place.path, [at.file, at.line, at.column, at.length] if at else None, place.label]


def _read_place(kept: list[Any]) -> Place:
    object, path, at, label = kept
    return Place(object, path, Position(*at) if at else None, label)


def _suppression(kept: Suppression) -> list[Any]:
    at = kept.position
    where = [at.file, at.line, at.column, at.length]
    return [kept.file, kept.line, kept.target.start, kept.target.stop, kept.rules, kept.reason, where]


def _read_suppression(kept: list[Any]) -> Suppression:
    file, line, start, stop, rules, reason, at = kept
    return Suppression(file, line, range(start, stop), tuple(rules), reason, Position(*at))
