"""The JSON document."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import trainyard.report
from trainyard.findings.finding import Edit, Fix
from trainyard.report import Report

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]

SCHEMA: dict[str, Any] = json.loads(Path(trainyard.report.__file__).with_name("findings.schema.json").read_text())


def test_a_whole_run(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    output = printed(report, "json")
    snapshot("run.json", output)
    jsonschema.validate(json.loads(output), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_a_clean_run(printed: Printed) -> None:
    output = json.loads(printed(Report((), ("jobs/vision/vit-l",), seconds=0.25), "json"))
    jsonschema.validate(output, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert output == {
        "version": 1,
        "findings": [],
        "fixed": [],
        "suppressed": [],
        "not_judged": [],
        "summary": {
            "jobs": 1,
            "jobs_with_findings": 0,
            "jobs_in_part": 0,
            "errors": 0,
            "warnings": 0,
            "infos": 0,
            "bad_inputs": 0,
            "suppressed": 0,
            "unchanged": 0,
            "seconds": 0.25,
            "fail_on": "error",
            "exit_code": 0,
        },
    }


def test_fixes_are_told_with_their_edits(report: Report, printed: Printed) -> None:
    edits = (Edit("job.yaml", 3, 5, 3, 9, '"1"', "not shown"),)
    finding = replace(report.findings[0], fix=Fix("write 1", safe=True, edits=edits))
    refused = replace(report.findings[1], fix=Fix("write 2", safe=False, refused="it is shared"))

    output = json.loads(printed(Report((finding, refused), (), fixed=(finding,)), "json"))

    jsonschema.validate(output, SCHEMA, cls=jsonschema.Draft202012Validator)
    edit = {"file": "job.yaml", "line": 3, "column": 5, "end_line": 3, "end_column": 9, "text": '"1"'}
    assert [each["fix"] for each in output["findings"]] == [
        {"description": "write 1", "safe": True, "edits": [edit], "refused": ""},
        {"description": "write 2", "safe": False, "edits": [], "refused": "it is shared"},
    ]
    assert [(each["rule"], each["fix"]) for each in output["fixed"]] == [(finding.rule, "write 1")]


def test_the_schema_is_a_schema_and_closed(report: Report, printed: Printed) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(printed(report, "json"))
    for part in (document, document["findings"][0], document["findings"][0]["related"][0], document["summary"]):
        part["surprise"] = True
        with pytest.raises(jsonschema.ValidationError, match="surprise"):
            jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
        del part["surprise"]
        for key in list(part):
            value = part.pop(key)
            with pytest.raises(jsonschema.ValidationError, match=key):
                jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
            part[key] = value
