"""The JUnit suite."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

from trainyard.findings.finding import Severity
from trainyard.report import Report

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]


def _few_jobs(report: Report) -> Report:
    findings = tuple(replace(finding, jobs=finding.jobs[-2:]) for finding in report.findings)
    return replace(report, findings=findings, units=report.units[-6:])


def test_a_whole_run(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    snapshot("run.xml", printed(_few_jobs(report), "junit"))


def test_every_job_is_a_case_and_the_counts_are_those_of_the_cases(report: Report, printed: Printed) -> None:
    suite = ET.fromstring(printed(report, "junit"))
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == {*report.units, "jobs/vision/notes"}
    assert suite.get("tests") == str(len(cases)) == "46"
    failed, broken = (suite.findall(f"testcase[{tag}]") for tag in ("failure", "error"))
    assert suite.get("failures") == str(len(failed)) == "42"
    assert suite.get("errors") == str(len(broken)) == "2"
    passed = [case for case in suite if not {"failure", "error"} & {child.tag for child in case}]
    assert len(passed) == len(cases) - len(failed) - len(broken), "what a viewer gets that subtracts"
    assert all(len(case.findall("failure")) + len(case.findall("error")) <= 1 for case in suite)
    assert [child.tag for child in cases["jobs/vision/vit-l"]] == ["failure", "system-out"]
    assert list(cases["jobs/vision/clip-b"]) == []


def test_warnings_fail_a_case_where_they_fail_the_run(report: Report, printed: Printed) -> None:
    suite = ET.fromstring(printed(replace(_few_jobs(report), fail_on=Severity.WARNING), "junit"))
    (failure,) = suite.findall("testcase[@name='jobs/vision/vit-l']/failure")
    assert failure.get("type") == (
        "NET002 rendezvous-port-closed, NCL003 infiniband-off-with-rdma, BAT001 global-batch-mismatch"
    )
    assert str(failure.get("message")).endswith(" (and 2 more)")
    assert str(failure.text).count("see: tools/lint-jobs explain") == 3
