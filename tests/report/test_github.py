"""Commands of GitHub Actions."""

from collections.abc import Callable
from dataclasses import replace

from trainyard.findings.finding import Edit, Finding, Fix, Place, Position, Severity
from trainyard.report import Report

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]


def test_a_whole_run(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    snapshot("run.github", printed(report, "github"))


def test_a_clean_run(printed: Printed) -> None:
    assert printed(Report((), ("jobs/vision/vit-l",)), "github") == "::notice title=lint-jobs::1 job passes\n"


def test_what_github_reads_as_syntax_is_escaped(printed: Printed) -> None:
    finding = Finding(
        rule="BAT001",
        name="a,b",
        severity=Severity.WARNING,
        message="100% of a::b, c\r\nd",
        place=Place("", "", Position("jobs/a,b:c%.yaml", 3, 5, 2), ""),
        help="one\ntwo",
    )
    assert printed(Report((finding,), ()), "github").splitlines()[1:] == [
        "::warning title=BAT001 a%2Cb,file=jobs/a%2Cb%3Ac%25.yaml,line=3,col=5,endColumn=7"
        "::100%25 of a::b, c\\x0d\\x0ad%0Ahelp: one%0Atwo"
    ]


def test_what_github_does_not_show_is_said(report: Report, printed: Printed) -> None:
    error, warning, info = report.findings[0], report.findings[2], report.findings[3]
    many = replace(report, findings=(error,) * 11 + (warning,) * 10 + (info,) * 10)
    assert printed(many, "github").splitlines()[0] == (
        "::notice title=lint-jobs::11 errors, 10 warnings, 10 info in 1 of 45 jobs "
        "(30 unchanged since the last run, 1 finding suppressed: NET002, 1 judged only in part); "
        "of 11 errors GitHub shows the first 10, all are in the log of this step; "
        "of 10 notices GitHub shows the first 9, all are in the log of this step"
    )


def test_a_finding_says_what_fixes_it(report: Report, printed: Printed) -> None:
    edits = (Edit("job.yaml", 3, 5, 3, 9, "1", ""),)
    safe, unsafe = (replace(report.findings[0], fix=Fix("write 1", each, edits)) for each in (True, False))

    lines = printed(Report((safe, unsafe), ()), "github").splitlines()

    assert lines[1].endswith("%0Afixed by: tools/lint-jobs --fix")
    assert lines[2].endswith("%0Afixed by: tools/lint-jobs --fix=unsafe")
