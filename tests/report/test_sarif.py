"""The SARIF log, against the schema that OASIS publishes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.report.repository import line_reader
from trainyard import __version__
from trainyard.findings.finding import Edit, Finding, Fix, Place, Position, Severity
from trainyard.report import Report
from trainyard.report.sarif import artifact_uri
from trainyard.rules.registry import Rule

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]

SCHEMA = json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text())


def _log(output: str) -> Any:
    log = json.loads(output)
    jsonschema_rs.Draft4Validator(SCHEMA, validate_formats=True).validate(log)
    return log


def test_a_whole_run(report: Report, rules: dict[str, Rule], printed: Printed, snapshot: Snapshot) -> None:
    output = printed(report, "sarif", rules=rules)
    _log(output)
    snapshot("run.sarif.json", output.replace(f'"semanticVersion": "{__version__}"', '"semanticVersion": "0.0.0"'))


def test_a_clean_run(rules: dict[str, Rule], printed: Printed) -> None:
    run = _log(printed(Report((), ("jobs/vision/vit-l",)), "sarif", rules=rules))["runs"][0]
    assert run["results"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["NCL003", "NET002"]


@pytest.mark.claim("sarif-links-to-pages")
def test_a_rule_links_to_its_page_where_the_site_has_an_address(
    rules: dict[str, Rule], printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def links() -> list[str | None]:
        driver = _log(printed(Report((), ()), "sarif", rules=rules))["runs"][0]["tool"]["driver"]
        return [rule.get("helpUri") for rule in driver["rules"]]

    monkeypatch.setattr("trainyard.report.sarif.HOME", tmp_path)
    assert links() == [None, None]
    for settings in ('site_url: ""\n', "site_name: Trainyard\n"):
        (tmp_path / "mkdocs.yml").write_text(settings)
        assert links() == [None, None]
    for address in ("https://docs.example.com/trainyard", "https://docs.example.com/trainyard/"):
        (tmp_path / "mkdocs.yml").write_text(f"site_url: {address}\n")
        assert links() == [f"https://docs.example.com/trainyard/rules/{rule}.html" for rule in ("NCL003", "NET002")]


def test_a_rule_index_names_the_rule(report: Report, rules: dict[str, Rule], printed: Printed) -> None:
    run = _log(printed(report, "sarif", rules=rules))["runs"][0]
    listed = run["tool"]["driver"]["rules"]
    named = [(result["ruleId"], result.get("ruleIndex")) for result in run["results"]]
    assert named[:3] == [("NET002", 1), ("NCL003", 0), ("BAT001", None)]
    assert all(listed[index]["id"] == id_ for id_, index in named if index is not None)


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("jobs/vision/vit-l/job.yaml", "jobs/vision/vit-l/job.yaml"),
        ("jobs/a b/#1?.yaml", "jobs/a%20b/%231%3F.yaml"),
        ("a:b.yaml", "a%3Ab.yaml"),
        ("50%.yaml", "50%25.yaml"),
        ("jobs/视觉.yaml", "jobs/%E8%A7%86%E8%A7%89.yaml"),
        ("bad\udcff.yaml", "bad%FF.yaml"),
        ("bad\ud800.yaml", "bad%ED%A0%80.yaml"),
        ("/tmp/x y.yaml", "file:///tmp/x%20y.yaml"),
    ],
)
def test_files_are_percent_encoded(file: str, uri: str) -> None:
    assert artifact_uri(file) == uri


def _fingerprints(root: Path, lines: list[str], line: int, column: int, printed: Printed) -> list[str]:
    (root / "job.yaml").write_text("\n".join(lines))
    finding = Finding(
        "NET002",
        "rendezvous-port-closed",
        Severity.ERROR,
        "port is closed",
        Place("Job/a/b", "spec.x", Position("job.yaml", line, column)),
    )
    log = _log(printed(Report((finding, finding), ("a",), line_of=line_reader(root)), "sarif"))
    return [result["partialFingerprints"]["findingHash/v1"] for result in log["runs"][0]["results"]]


def test_fingerprints_survive_moved_lines_and_tell_twins_apart(tmp_path: Path, printed: Printed) -> None:
    first = _fingerprints(tmp_path, ["spec:", "  port: 29500"], 2, 9, printed)
    moved = _fingerprints(tmp_path, ["# new", "", "spec:", "    port: 29500 "], 4, 11, printed)
    edited = _fingerprints(tmp_path, ["spec:", "  port: 29501"], 2, 9, printed)
    assert first == moved
    assert first[0] != first[1]
    assert set(first).isdisjoint(edited)


def test_a_fingerprint_does_not_depend_on_which_job_is_named_first(report: Report, printed: Printed) -> None:
    def of(finding: Finding) -> str:
        log = _log(printed(replace(report, findings=(finding,)), "sarif"))
        return str(log["runs"][0]["results"][0]["partialFingerprints"])

    finding = report.findings[1]
    other = replace(finding.place, object="ConfigMap/audio/whisper-nccl")
    assert of(finding) == of(replace(finding, place=other, jobs=("jobs/audio/whisper", *finding.jobs)))


def test_a_fix_is_a_replacement_in_each_of_its_files(report: Report, printed: Printed) -> None:
    edits = (Edit("a b.yaml", 3, 5, 3, 9, "1", ""), Edit("base/b.yaml", 7, 1, 8, 1, "", ""))
    finding = replace(report.findings[0], fix=Fix("write 1", safe=False, edits=edits))

    (result,) = _log(printed(Report((finding,), ()), "sarif"))["runs"][0]["results"]

    (fix,) = result["fixes"]
    assert fix["description"] == {"text": "write 1 (changes what the job means)"}
    changes = [(each["artifactLocation"]["uri"], each["replacements"]) for each in fix["artifactChanges"]]
    assert changes == [
        ("a%20b.yaml", [_replacement((3, 5, 3, 9), "1")]),
        ("base/b.yaml", [_replacement((7, 1, 8, 1), "")]),
    ]


def _replacement(region: tuple[int, int, int, int], text: str) -> Any:
    names = ("startLine", "startColumn", "endLine", "endColumn")
    return {"deletedRegion": dict(zip(names, region, strict=True)), "insertedContent": {"text": text}}
