"""The Code Quality report of GitLab."""

import json
from collections.abc import Callable

import jsonschema

from trainyard.report import Report

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]
ENTRY = {
    "type": "object",
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
    "properties": {
        "description": {"type": "string", "minLength": 1},
        "check_name": {"type": "string", "minLength": 1},
        "fingerprint": {"type": "string", "minLength": 1},
        "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
        "location": {
            "type": "object",
            "required": ["path", "lines"],
            "properties": {
                "path": {"type": "string", "pattern": "^[^./]"},
                "lines": {"type": "object", "properties": {"begin": {"type": "integer", "minimum": 1}}},
            },
        },
    },
}
"""What GitLab documents of an entry."""


def test_a_whole_run(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    output = printed(report, "codequality")

    entries = json.loads(output)
    jsonschema.Draft7Validator({"type": "array", "items": ENTRY}).validate(entries)
    assert len(entries) == len(report.findings)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    snapshot("run.codequality.json", output)
