"""Findings for code scanning: SARIF 2.1.0."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, TextIO
from urllib.parse import quote

import yaml

from trainyard import __version__
from trainyard.findings.finding import Edit, Finding, Fix, Place, Position, Severity
from trainyard.findings.suppress import SuppressedFinding
from trainyard.home import HOME
from trainyard.report import LineOf, Look, Report
from trainyard.report.escape import json_text, whole
from trainyard.report.where import field_of, file_of, position_of, unknown_place
from trainyard.rules.aliases import former
from trainyard.rules.registry import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_ROOT = "%SRCROOT%"


def write(report: Report, out: TextIO, look: Look) -> None:
    """One log with one run, in ASCII."""
    out.write(json_text(json.dumps(log(report, look.rules), indent=2)) + "\n")


def log(report: Report, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The report as plain data."""
    index = {name: number for number, name in enumerate(rules)}
    site = _site()
    twins: Counter[str] = Counter()
    run = {
        "tool": {
            "driver": {
                "name": "lint-jobs",
                "semanticVersion": __version__,
                "rules": [_rule(rule, site) for rule in rules.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(report)],
        "results": [
            *(_result(finding, index, twins, report.line_of) for finding in report.findings),
            *(_suppressed(silenced, index, twins, report.line_of) for silenced in report.suppressed),
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(report: Report) -> dict[str, Any]:
    """How the run went, with a note for each part of a job that was not judged."""
    invocation: dict[str, Any] = {
        "executionSuccessful": not any(finding.input_error for finding in report.findings),
    }
    if report.not_judged:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "note",
                "message": {"text": whole(f"not judged of {each.job}: {each.what} ({each.why})")},
                "locations": [_location(each.place, (each.job,))],
            }
            for each in report.not_judged
        ]
    return invocation


def artifact_uri(file: str) -> str:
    """A file of the repository as a URI reference, percent-encoded; file names that are not UTF-8 keep their bytes."""
    encoded = quote(_file_bytes(file))
    return f"file://{encoded}" if file.startswith("/") else encoded


def _site() -> str:
    """Where the pages of docs/ are served, as mkdocs.yml says it; empty where it names no address."""
    file = HOME / "mkdocs.yml"
    address = yaml.safe_load(file.read_text(encoding="utf-8")).get("site_url") if file.is_file() else None
    return address.rstrip("/") if isinstance(address, str) else ""


def _rule(rule: Rule, site: str) -> dict[str, Any]:
    page = whole(cleandoc(rule.page))
    title, _, _ = page.partition("\n")
    before = former(rule.id)
    return {
        "id": rule.id,
        **({"deprecatedIds": list(before)} if before else {}),
        "name": rule.name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": page.partition("\n\nBad:")[0]},
        "help": {"text": page, "markdown": f"```text\n{page}\n```"},
        **({"helpUri": f"{site}/rules/{rule.id}.html"} if site else {}),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.id.rstrip("0123456789")]},
    }


def _result(finding: Finding, index: Mapping[str, int], twins: Counter[str], line_of: LineOf) -> dict[str, Any]:
    fingerprint = fingerprint_of(finding, line_of)
    twins[fingerprint] += 1
    result: dict[str, Any] = {
        "ruleId": whole(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_location(finding.place, finding.jobs)],
        "partialFingerprints": {"findingHash/v1": f"{fingerprint}:{twins[fingerprint]}"},
        "properties": {"name": whole(finding.name), "jobs": [whole(job) for job in finding.jobs]},
    }
    if finding.rule in index:
        result["ruleIndex"] = index[finding.rule]
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(place, finding.jobs, place.label)}
            for number, place in enumerate(finding.related, 1)
        ]
    if finding.fix is not None and finding.fix.edits:
        result["fixes"] = [_fix(finding.fix)]
    return result


def _suppressed(
    silenced: SuppressedFinding, index: Mapping[str, int], twins: Counter[str], line_of: LineOf
) -> dict[str, Any]:
    """A result that viewers leave out of what is open, and show with its reason."""
    suppression = {
        "kind": "external" if silenced.is_listed else "inSource",
        "status": "accepted",
        "justification": whole(silenced.reason),
        "location": _location(Place("", "", silenced.by), ()),
    }
    return {**_result(silenced.finding, index, twins, line_of), "suppressions": [suppression]}


def _fix(fix: Fix) -> dict[str, Any]:
    files = dict.fromkeys(edit.file for edit in fix.edits)
    words = whole(fix.says) if fix.safe else f"{whole(fix.says)} (changes what the job means)"
    return {
        "description": {"text": words},
        "artifactChanges": [
            {
                "artifactLocation": {"uri": artifact_uri(file), "uriBaseId": _ROOT},
                "replacements": [_replacement(edit) for edit in fix.edits if edit.file == file],
            }
            for file in files
        ],
    }


def _replacement(edit: Edit) -> dict[str, Any]:
    return {
        "deletedRegion": {
            "startLine": edit.line,
            "startColumn": edit.column,
            "endLine": edit.end_line,
            "endColumn": edit.end_column,
        },
        "insertedContent": {"text": whole(edit.text)},
    }


def _message(finding: Finding) -> str:
    lines = [finding.message]
    if finding.place.label:
        lines.append(finding.place.label)
    if finding.place.position is None:
        lines.append(unknown_place(finding.place, finding.jobs))
    if finding.help:
        lines.append(f"Help: {finding.help}")
    return whole("\n".join(lines))


def _location(place: Place, jobs: tuple[str, ...], message: str = "") -> dict[str, Any]:
    location: dict[str, Any] = {}
    position = position_of(place)
    file = file_of(place)
    if file is None and jobs:
        file = jobs[0]
    if file is not None:
        artifact = {"uri": artifact_uri(file)}
        if not file.startswith("/"):
            artifact["uriBaseId"] = _ROOT
        location["physicalLocation"] = {"artifactLocation": artifact}
        if position is not None:
            location["physicalLocation"]["region"] = _region(position)
    if field := whole(field_of(place)):
        location["logicalLocations"] = [{"fullyQualifiedName": field, "kind": "property"}]
    if message:
        location["message"] = {"text": whole(message)}
    return location


def _region(position: Position) -> dict[str, int]:
    return {
        "startLine": position.line,
        "startColumn": position.column,
        "endLine": position.line,
        "endColumn": position.column + max(position.length, 1),
    }


def fingerprint_of(finding: Finding, line_of: LineOf) -> str:
    """The same after lines above were added or removed, and after another job came to be the first that it reaches."""
    position = position_of(finding.place)
    if position is None:
        parts = [finding.rule, file_of(finding.place) or "", finding.place.object, finding.place.path]
    else:
        line = line_of(position.file, position.line) or ""
        parts = [finding.rule, position.file, finding.place.path, line.strip()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _file_bytes(file: str) -> bytes:
    try:
        return file.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return file.encode("utf-8", "surrogatepass")
