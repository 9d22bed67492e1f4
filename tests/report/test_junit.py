"""The JUnit suite."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

from trainyard.finding import Severity
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
    assert suite.get("failures") == str(len(suite.findall("testcase/failure"))) == "43"
    assert suite.get("errors") == str(len(suite.findall("testcase/error"))) == "2"
    assert [child.tag for child in cases["jobs/vision/vit-l"]] == ["failure", "failure", "system-out"]
    assert list(cases["jobs/vision/clip-b"]) == []


def test_warnings_fail_a_case_where_they_fail_the_run(report: Report, printed: Printed) -> None:
    suite = ET.fromstring(printed(replace(_few_jobs(report), fail_on=Severity.WARNING), "junit"))
    assert [failure.get("type") for failure in suite.findall("testcase[@name='jobs/vision/vit-l']/failure")] == [
        "NET002 rendezvous-port-closed",
        "NCL003 infiniband-off-with-rdma",
        "BAT001 global-batch-mismatch",
    ]
