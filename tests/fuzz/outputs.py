"""Whatever a stranger's files hold, what is printed about them says it and does nothing."""

import io
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.fuzz import strict
from tests.fuzz.parsers import FILE, in_text, text_of
from trainyard.diff.html import html
from trainyard.diff.markdown import MARKER, MOST, markdown
from trainyard.diff.model import Change, Difference, FindingLine, FolderDiff, Kind, ObjectDiff
from trainyard.diff.text import text as plain_text
from trainyard.errors import InputError
from trainyard.findings.finding import Edit, Finding, Fix, Place, Position, Severity
from trainyard.lint.result import finding_of, found_by_rules, input_finding
from trainyard.objects.manifests import read_manifests
from trainyard.report import FORMATS, Report, write
from trainyard.rules.index import all_rules
from trainyard.schemas import schema
from trainyard.yaml.sources import Sources

_ROOT = Path(tempfile.gettempdir())
_MANY = 6
PAGE_TAGS = (
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    *(f"<{name}>" for name in ("title", "style", "body", "h1", "h2", "p", "code", "table", "tr", "th", "td", "ul")),
    *(f"<{name}>" for name in ("details", "summary", "pre", "ins", "del", "li")),
    '<p class="error">',
    *(f'<li class="{severity.label}">' for severity in Severity),
)


def manifest(data: bytes) -> None:
    """Every rule judges every manifest, and no format of the report can be made to say what is not in it."""
    text = text_of(data)
    sources = Sources(_ROOT)
    sources.add(FILE, text)
    rules = all_rules()
    findings: list[Finding] = []
    try:
        unit, origin = read_manifests(FILE, (FILE,), sources)
    except InputError as error:
        findings.append(input_finding(error, FILE))
    else:
        findings += [finding_of(rule, problem, origin, FILE) for rule, problem in found_by_rules(rules, unit)]
        for refused in schema.check([unit]):
            place = origin.position(refused.object, refused.path, refused.at_key)
            assert refused.message
            in_text(text, place)
    for finding in findings:
        in_text(text, finding.place.position)
    _judge(Report(tuple(findings), (FILE,), line_of=lambda _, line: _line(sources.lines(FILE), line)))


def reports(data: bytes) -> None:
    """A finding may hold any text anywhere: names of files, fields and objects are a stranger's."""
    first, second, third, *rest = _texts(data, 3)
    lines = [first, second, third, *rest]
    position = Position(first, 1 + len(second) % 4, 1 + len(third) % 9, len(first) % 12)
    places = (Place(second, third, position, first), Place(third, first, None, second))
    edit = Edit(first, 1, 1, 1, 2, third, "")
    findings = tuple(
        Finding(
            rule="NET002" if number else f"X{first}"[:20],
            name=second,
            severity=severity,
            message=third,
            place=places[number % 2],
            related=places,
            help=first,
            jobs=(second, third),
            input_error=number == 1,
            fix=Fix(second, bool(number), (edit,), ""),
        )
        for number, severity in enumerate(Severity)
    )
    _judge(Report(findings, (first, second), line_of=lambda _, line: _line([" ".join(x.split()) for x in lines], line)))


def _judge(report: Report) -> None:
    for form in FORMATS:
        out = io.StringIO()
        write(report, form, out, rules={})
        strict.report(form, out.getvalue())


def differences(data: bytes) -> None:
    """The page and the comment of a pull request hold no markup but their template's, in the size that GitHub takes."""
    kind = list(Kind)[data[0] % len(Kind)] if data else Kind.NEW
    texts = _texts(data[1:], 4)
    first, second, third, *rest = texts
    one = FolderDiff(
        kind=kind,
        folder=f"jobs/research/{first}",
        before=second,
        objects=(
            ObjectDiff(third, "changed", tuple(f"{sign}{text}" for text in texts for sign in "+- ")),
            *(ObjectDiff(text, "added", (f"+{text}",)) for text in rest),
        ),
        settings=(Change(first, second, third), Change(second, third, "")),
        numbers=(Change(third, first, second), Change("GPUs", "8", third)),
        new=(FindingLine("error", first, second, third),),
        fixed=(FindingLine("info", third, second, ""),),
        problem_before=second,
        problem=third,
        same=(first, second),
    )
    found = Difference(first, "0123456789ab", (one, replace(one, folder=f"jobs/vision/{first}")))
    strict.html(html(found), PAGE_TAGS)
    said = plain_text(found)
    strict.printable(said)
    strict.no_command(said)
    for most in (MOST, 4000):
        comment = markdown(found, most)
        strict.comment(comment, MARKER)
        assert len(comment) <= most


def _texts(data: bytes, least: int) -> list[str]:
    """Texts as names of files may be, which are not UTF-8; at least so many, and not many more."""
    found = [part.decode(errors="surrogateescape") for part in data.split(b"\0")][:_MANY]
    return found + [""] * (least - len(found))


def _line(lines: list[str], number: int) -> str | None:
    return lines[number - 1] if 0 < number <= len(lines) else None
