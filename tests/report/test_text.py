"""What people read."""

import io
import os
import pty
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.report.repository import REPO, SILENCED, line_reader
from trainyard.errors import UsageError
from trainyard.findings.finding import Finding, NotJudged, Place, Position, Severity
from trainyard.report import Report
from trainyard.report.terminal import columns, wants_color, width

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]
At = Callable[..., Place]


def _report(*findings: Finding, units: int = 14, **rest: object) -> Report:
    names = tuple(f"jobs/vision/vit-{n}" for n in range(units))
    return Report(findings, names, line_of=line_reader(REPO), **rest)  # type: ignore[arg-type]


def _finding(place: Place, **rest: object) -> Finding:
    known = {
        "rule": "NET002",
        "name": "rendezvous-port-closed",
        "severity": Severity.ERROR,
        "message": "port is closed",
    }
    return Finding(place=place, **(known | rest))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (1, "1 job passes, 1 only in part"),
        (14, "14 jobs pass, 1 only in part"),
    ],
)
def test_a_pass_says_what_was_not_judged(
    units: int, expected: str, not_judged: tuple[NotJudged, ...], printed: Printed
) -> None:
    missing = tuple(replace(each, job="jobs/vision/vit-0") for each in not_judged)

    assert printed(_report(units=units, not_judged=missing), "text") == (
        "not judged of jobs/vision/vit-0: rendezvous, ranks and exit code (nothing is known of `bash run.sh`), "
        f"np (its value is known only in the pod)\n{expected}\n"
    )


def test_a_whole_run(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    snapshot("run.txt", printed(report, "text"))


def test_a_whole_run_in_colour(report: Report, printed: Printed, snapshot: Snapshot) -> None:
    snapshot("run-color.txt", printed(report, "text", color=True))


@pytest.mark.parametrize("columns", [40, 72, 100, 300])
def test_long_lines_are_cut_around_the_caret(columns: int, at: At, printed: Printed, snapshot: Snapshot) -> None:
    file = "jobs/research/llama-8b-sft/job.yaml"
    report = _report(
        *(
            _finding(at(file, text, label), jobs=("jobs/research/llama-8b-sft",))
            for text, label in (
                ("[sh, -c", "a shell that does not exec hides SIGTERM from torchrun"),
                ("--nnodes=4", "4 nodes"),
                ("--micro-batch=4", "micro 4 x accumulation 2 x ranks 64 = 512, but global is 256"),
                ("--warmup-steps=200", "more than half of 300 steps"),
            )
        )
    )
    output = printed(report, "text", width=columns)
    snapshot(f"long-lines-{columns}.txt", output)
    assert all(width(line) <= columns for line in output.splitlines() if "|" in line)


def test_wide_characters_and_tabs_keep_the_caret_below_its_text(at: At, printed: Printed, snapshot: Snapshot) -> None:
    file = "jobs/research/llama-8b-sft/config-map.yaml"
    texts = ["要約", "🦙", "seq_len: 8192", "</s>", "per sample", "四"]
    output = printed(_report(*(_finding(at(file, text, f"is {text}")) for text in texts)), "text")
    snapshot("wide.txt", output)
    lines = output.splitlines()
    for line, carets in pairwise(lines):
        if "^" in carets:
            text = carets.partition(" is ")[2]
            assert width(line[: line.index(text)]) == carets.index("^")
            assert width(text) == carets.count("^")


def test_a_caret_beyond_the_end_of_its_line_stands_at_the_end(printed: Printed) -> None:
    place = Place("", "", Position("overlays/rdma/fabric.yaml", 2, 90, 5), "here")
    lines = printed(_report(_finding(place)), "text").splitlines()
    assert lines[3:5] == ["2 | kind: Fabric", "  |             ^ here"]


def test_a_source_line_that_cannot_be_read_is_left_out(printed: Printed, snapshot: Snapshot) -> None:
    place = Place("", "", Position("base/gone.yaml", 3, 5), "was here")
    snapshot("unreadable-source.txt", printed(_report(_finding(place, jobs=("jobs/vision/vit-1",))), "text"))


def test_a_hostile_manifest(tmp_path: Path, printed: Printed, snapshot: Snapshot) -> None:
    line = '  note: "\x1b[2J\u202eevil\u202c ##[error]no \x9b31m ::set-output name=x::y" # \u200b##vso[task.complete]'
    (tmp_path / "job.yaml").write_text(f"{line}\n")
    start = line.index("evil")
    finding = Finding(
        rule="SEC001",
        name="secret-in-plain-sight",
        severity=Severity.ERROR,
        message="value \x1b]0;title\x07 \u2066is\u2069\n::error file=x::fake",
        place=Place("Job/a/\x1b[31mb", "spec", Position("job.yaml", 1, start + 1, 4), "\r::stop-commands::x"),
        related=(Place("Job/a/b\n::warning::z", "spec[\x7f]", None, "::debug::no"),),
        help="first\n::error::second\n  ##[group]third",
        jobs=("jobs/a\n::add-mask::b", "jobs/\udcff"),
    )
    report = Report((finding,), ("jobs/a",), line_of=line_reader(tmp_path))
    snapshot("hostile.txt", printed(report, "text"))


@pytest.mark.parametrize(
    ("severities", "rest", "expected"),
    [
        ("", {}, "14 jobs pass"),
        ("", {"units": 1}, "1 job passes"),
        ("", {"units": 3, "noun": "manifest"}, "3 manifests pass"),
        (
            "",
            {"cached": 2, "suppressed": 1},
            "14 jobs pass (2 unchanged since the last run, 1 finding suppressed: NET002)",
        ),
        ("EEEW", {"cached": 12}, "3 errors, 1 warning in 2 of 14 jobs (12 unchanged since the last run)"),
        ("II", {}, "2 info in 2 of 14 jobs"),
        ("BBE", {"suppressed": 2}, "2 bad inputs, 1 error in 2 of 14 jobs (2 findings suppressed: NET002 x2)"),
    ],
)
def test_the_last_line_sums_up(severities: str, rest: dict[str, object], expected: str, printed: Printed) -> None:
    kinds = {"E": Severity.ERROR, "B": Severity.ERROR, "W": Severity.WARNING, "I": Severity.INFO}
    findings = (
        _finding(Place("", "", None), severity=kinds[k], jobs=(f"jobs/vision/vit-{n % 2}",), input_error=k == "B")
        for n, k in enumerate(severities)
    )
    rest["suppressed"] = (SILENCED,) * int(str(rest.get("suppressed", 0)))
    assert printed(_report(*findings, **rest), "text").splitlines()[-1] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("findings", "fail_on", "code"),
    [
        ("", Severity.ERROR, 0),
        ("W", Severity.ERROR, 0),
        ("W", Severity.WARNING, 1),
        ("IE", Severity.ERROR, 1),
        ("EB", Severity.ERROR, 2),
    ],
)
def test_the_exit_code_follows_fail_on(findings: str, fail_on: Severity, code: int) -> None:
    kinds = {"E": Severity.ERROR, "B": Severity.ERROR, "W": Severity.WARNING, "I": Severity.INFO}
    found = (_finding(Place("", "", None), severity=kinds[kind], input_error=kind == "B") for kind in findings)
    assert _report(*found, fail_on=fail_on).exit_code == code


def test_an_unknown_format_is_bad_usage(report: Report, printed: Printed) -> None:
    with pytest.raises(UsageError, match="no format is called html; there are text, json, sarif, junit, github"):
        printed(report, "html")


def test_colour_is_for_terminals_alone() -> None:
    reader, writer = pty.openpty()
    with open(writer, "w") as terminal:
        assert wants_color("auto", terminal, {"TERM": "xterm"})
        assert not wants_color("auto", terminal, {"TERM": "dumb"})
        assert not wants_color("auto", terminal, {"TERM": "xterm", "NO_COLOR": "1"})
        assert wants_color("auto", terminal, {"TERM": "xterm", "NO_COLOR": ""})
        assert not wants_color("never", terminal, {"TERM": "xterm"})
    os.close(reader)
    assert not wants_color("auto", io.StringIO(), {"TERM": "xterm"})
    assert wants_color("always", io.StringIO(), {"NO_COLOR": "1"})
    with pytest.raises(UsageError, match="--color is one of auto, always, never, not yes"):
        wants_color("yes", io.StringIO(), {})


def test_the_width_is_100_where_there_is_no_terminal(tmp_path: Path) -> None:
    assert columns(io.StringIO()) == 100
    with (tmp_path / "log").open("w") as log:
        assert columns(log) == 100


def test_a_stream_that_cannot_take_a_character_gets_it_escaped(at: At) -> None:
    from trainyard.report import write

    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    write(_report(_finding(at("jobs/research/llama-8b-sft/config-map.yaml", "🦙"))), "text", out)
    out.flush()
    assert rb"\U0001f999" in raw.getvalue()
