"""Findings as a Code Quality report, which GitLab shows in a merge request and beside the changed lines.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

import json
from collections import Counter
from typing import Any, TextIO

from trainyard.findings.finding import Finding, Severity
from trainyard.report import LineOf, Look, Report
from trainyard.report.escape import json_text, visible, visible_lines, whole
from trainyard.report.sarif import fingerprint_of
from trainyard.report.where import file_of, position_of, unknown_place

_LEVELS = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def write(report: Report, out: TextIO, _look: Look) -> None:
    """A list of entries. GitLab tells those of two runs apart by their fingerprints, so no two are alike."""
    twins: Counter[str] = Counter()
    entries = [_entry(finding, report.line_of, twins) for finding in report.findings]
    out.write(json_text(json.dumps(entries, indent=1)) + "\n")


def _entry(finding: Finding, line_of: LineOf, twins: Counter[str]) -> dict[str, Any]:
    fingerprint = fingerprint_of(finding, line_of)
    twins[fingerprint] += 1
    position = position_of(finding.place)
    message = visible(finding.message)
    if position is None and file_of(finding.place) is None:
        message = f"{visible(unknown_place(finding.place, finding.jobs))}: {message}"
    if finding.help:
        message += f" (help: {' '.join(line.strip() for line in visible_lines(finding.help))})"
    return {
        "description": message,
        "check_name": whole(f"{finding.rule} {finding.name}"),
        "fingerprint": f"{fingerprint}:{twins[fingerprint]}",
        "severity": _LEVELS[finding.severity],
        "location": {
            "path": whole(file_of(finding.place) or next(iter(finding.jobs), ".")),
            "lines": {"begin": position.line if position else 1},
        },
    }
