"""Whatever a manifest holds, no format lets it act."""

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainyard.report
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.report import FORMATS, Report, write
from trainyard.report.escape import inert, visible
from trainyard.report.terminal import width, wrap

OWN_COLORS = re.compile(r"\x1b\[(?:0|1|1;3[1346])m")
BRACKET_COMMAND = re.compile(r"##[A-Za-z]*\[")

DANGERS = st.sampled_from(
    [
        "::error::", "::", ":", "##[", "##", "#", "[", "##vso[task.complete]", "##teamcity[", "\n", "\r", "\r\n", "\t",
        " ", "\x1b[31m", "\x1b]8;;http://x\x07", "\x9b", "\x7f", "\x00", "\x85", "\xa0", "\u200b", "\u200d", "\u202e",
        "\u2028", "\u2066", "\ufeff", "\ufffe", "\ud800", "\udcff", "\u3164", "]]>", "<!--", "&amp;", "<x>", '"', "\\",
        "\\u", "%0A", "%", ",", "\U000e0001", "e\u0301", "語", "🦙",
    ]
)  # fmt: skip
TEXT = st.lists(DANGERS | st.text(st.characters(), max_size=3), max_size=6).map("".join)
POSITIONS = st.none() | st.builds(Position, TEXT, st.integers(0, 5), st.integers(1, 40), st.integers(0, 30))
PLACES = st.builds(Place, TEXT, TEXT, POSITIONS, TEXT)
FINDINGS = st.builds(
    Finding,
    rule=st.just("NET002") | TEXT.map(lambda text: f"X{text}"),
    name=TEXT,
    severity=st.sampled_from(Severity),
    message=TEXT,
    place=PLACES,
    related=st.lists(PLACES, max_size=2).map(tuple),
    help=TEXT,
    jobs=st.lists(TEXT, max_size=7).map(tuple),
    input_error=st.booleans(),
)
REPORTS = st.builds(
    lambda findings, units, lines: Report(
        tuple(findings), tuple(units), line_of=lambda _, n: lines[n - 1] if n <= len(lines) else None
    ),
    st.lists(FINDINGS, max_size=3),
    st.lists(TEXT, max_size=3),
    st.lists(TEXT.map(lambda text: re.sub(r"[\r\n]", "", text)), max_size=5),
)

DOCUMENT = jsonschema_rs.Draft202012Validator(
    json.loads(Path(trainyard.report.__file__).with_name("findings.schema.json").read_text())
)
SARIF = jsonschema_rs.Draft4Validator(
    json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text()), validate_formats=True
)

by_property = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def _printed(report: Report, form: str, **options: object) -> str:
    out = io.StringIO()
    write(report, form, out, **options)  # type: ignore[arg-type]
    return out.getvalue()


def _assert_harmless(line: str) -> None:
    assert line.isprintable(), ascii(line)
    assert not line.lstrip().startswith("::") or line.lstrip().startswith("::: "), ascii(line)
    assert not BRACKET_COMMAND.search(line), ascii(line)


@by_property
@given(REPORTS, st.booleans(), st.integers(40, 120))
def test_text_holds_no_control_and_no_command(report: Report, color: bool, columns: int) -> None:
    output = _printed(report, "text", color=color, width=columns)
    if color:
        output = OWN_COLORS.sub("", output)
    for line in output.split("\n"):
        _assert_harmless(line)


@by_property
@given(REPORTS)
def test_json_is_one_valid_document_in_harmless_ascii(report: Report) -> None:
    output = _printed(report, "json")
    assert output.isascii()
    for line in output.split("\n"):
        _assert_harmless(line)
    document = json.loads(output)
    json.dumps(document, ensure_ascii=False).encode()
    assert len(document["findings"]) == len(report.findings)
    DOCUMENT.validate(document)


@given(st.text())
def test_json_keeps_every_character(message: str) -> None:
    finding = Finding("NET002", "x", Severity.ERROR, message, Place("", "", None))
    assert json.loads(_printed(Report((finding,), ()), "json"))["findings"][0]["message"] == message


@by_property
@given(REPORTS)
def test_sarif_is_one_valid_log_in_harmless_ascii(report: Report) -> None:
    output = _printed(report, "sarif")
    assert output.isascii()
    for line in output.split("\n"):
        _assert_harmless(line)
    SARIF.validate(json.loads(output))


@by_property
@given(REPORTS)
def test_junit_is_xml_with_a_case_for_each_job(report: Report) -> None:
    output = _printed(report, "junit")
    for line in output.split("\n"):
        _assert_harmless(line)
    suite = ET.fromstring(output.encode())
    assert {element.tag for element in suite.iter()} <= {"testsuite", "testcase", "failure", "error", "system-out"}
    assert suite.get("tests") == str(len(suite))


@by_property
@given(REPORTS)
def test_github_gets_one_command_a_line(report: Report) -> None:
    lines = _printed(report, "github").split("\n")
    assert lines.pop() == ""
    assert len(lines) == 1 + len(report.findings)
    for line in lines:
        assert line.isprintable(), ascii(line)
        assert not BRACKET_COMMAND.search(line), ascii(line)
        _, command, _ = line.split("::", 2)
        assert re.fullmatch(r"(error|warning|notice) (\w+=[^:,]*)(,\w+=[^:,]*)*", command), ascii(command)


@pytest.mark.parametrize("form", FORMATS)
def test_formats_write_nothing_but_their_report(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(Report((), ("jobs/vision/vit-l",)), form).endswith("\n")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("trainer-peers", "trainer-peers"),
        ("naïve 語 🦙", "naïve 語 🦙"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\tb\nc", r"a\x09b\x0ac"),
        ("\x9b\xad\xa0", r"\x9b\xad\xa0"),
        ("\u202e\u2066\u200b\u3164", r"\u202e\u2066\u200b\u3164"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff\ud800", r"\xff\ud800"),
        ("##[group]x ##vso[y] ##TeamCity[z] ## [a] #[b]", r"\x23#[group]x \x23#vso[y] \x23#TeamCity[z] ## [a] #[b]"),
        ("###[", r"#\x23#["),
    ],
)
def test_what_does_not_print_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(TEXT)
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert inert(inert(visible(text))) == inert(visible(text))


@given(st.text("ab語 ", max_size=60), st.integers(1, 30))
def test_wrapping_loses_no_word(text: str, room: int) -> None:
    lines = wrap(text, room)
    assert " ".join(lines) == text
    assert all(width(line) <= room or " " not in line for line in lines)


def test_a_huge_line_is_cut_before_it_is_looked_at() -> None:
    line = "x" * 4_000_000
    place = Place("", "", Position("job.yaml", 1, 2_000_000, 1_000_000), "here")
    finding = Finding("NET002", "x", Severity.ERROR, "m", place)
    output = _printed(Report((finding,), ("a",), line_of=lambda *_: line), "text")
    assert max(map(len, output.splitlines())) <= 100
