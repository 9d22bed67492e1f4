"""Strict readers of what is printed about a stranger's files: all that our templates did not write is refused."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

_COMMANDS = re.compile(r"^ *::[A-Za-z]", re.MULTILINE)
_OURS = re.compile(r"::(error|warning|notice|group|endgroup)(?: [a-zA-Z]+=[^,:\n]*(?:,[a-zA-Z]+=[^,:\n]*)*)?::")
_BRACKETS = re.compile(r"##[A-Za-z]*\[")
_JUNIT = {
    "testsuite": {"name", "tests", "time", "failures", "errors"},
    "testcase": {"classname", "name"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "system-out": set[str](),
}


def printable(printed: str) -> None:
    """Nothing that a terminal obeys, and nothing that hides."""
    assert printed.replace("\n", "").isprintable()


def no_command(printed: str) -> None:
    """Nothing that a runner of GitHub, Azure or TeamCity obeys."""
    assert not _BRACKETS.search(printed)
    assert not _COMMANDS.search(printed)


def report(form: str, printed: str) -> None:
    """A report in one of its formats is what the format says, and gives no command but its own."""
    printable(printed)
    if form == "github":
        assert not _BRACKETS.search(printed)
        for line in printed.split("\n"):
            assert not _COMMANDS.match(line) or _OURS.match(line), line
        return
    no_command(printed)
    if form in ("json", "sarif", "codequality"):
        json.loads(printed)
    if form == "junit":
        for element in ET.fromstring(printed).iter():
            assert set(element.keys()) <= _JUNIT[element.tag], element.tag


_TAG = re.compile(r"<[^<>]*>")
_NAME = re.compile(r"</?([a-z0-9]+)")
_REFERENCE = re.compile(r"&(?:amp|lt|gt|quot|#x27|#[0-9]+);")
_VOID = ("meta",)


def html(page: str, tags: Iterable[str]) -> None:
    """Each tag stands in `tags` as it is, or closes the one that is open; the rest is text without a sign of HTML."""
    allowed = frozenset(tags)
    open_tags: list[str] = []
    for tag in _TAG.findall(page):
        found = _NAME.match(tag)
        name = found[1] if found else ""
        if tag.startswith("</"):
            assert tag == f"</{name}>", tag
            assert open_tags.pop() == name, tag
            continue
        assert tag in allowed, tag
        if name and name not in _VOID:
            open_tags.append(name)
    assert not open_tags
    text = _TAG.sub("", page)
    assert "<" not in text
    assert ">" not in text
    assert "&" not in _REFERENCE.sub("", text)


_CODE = r"<code>(?:[A-Za-z0-9 ,/=%-]|&#[0-9]+;|<!---->)*</code>"
_WORDS = r"[A-Za-z0-9 ,:;()]*"
_LINES = re.compile(
    "|".join(
        (
            "",
            rf"### Jobs since {_CODE} \([0-9a-f]+\): {_WORDS}",
            rf"\*\*(?:new|edited|renamed|removed|platform|shared)\*\* {_CODE}: {_WORDS}",
            rf"The same for {_CODE}(?:, {_CODE})*\.",
            rf"(?:The base|It) does not render: {_CODE}",
            r"\| \| before \| after \|",
            r"\| \| \|",
            r"\|(?:---\|)+",
            rf"\| {_CODE} \| (?:{_CODE})?(?: \| (?:{_CODE})?)? \|",
            rf"- (?:new|fixed): \*\*(?:error|warning|info)\*\* {_CODE} {_CODE}(?: \({_CODE}\))?",
            rf"- {_CODE}",
            r"<details><summary>rendered objects</summary>",
            r"</details>",
            _CODE,
            rf"Left out, since a comment holds 65,536 characters: {_CODE}(?:, {_CODE})*(?:, [0-9]+ more)?\. "
            r"`tools/diff-jobs` shows all of it\.",
            r"Left out, since a comment holds 65,536 characters: [0-9]+ more\. `tools/diff-jobs` shows all of it\.",
        )
    )
)


def comment(markdown: str, marker: str) -> None:
    """A comment begins with its marker; each line is one of the template's, or stands in a fence that holds it."""
    printable(markdown)
    first, *lines = markdown.removesuffix("\n").split("\n")
    assert first == marker
    fence, before = "", ""
    for line in lines:
        assert not before.startswith(("<details>", "</details>")) or not line, line
        before = line if not fence else ""
        ticks = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            if re.fullmatch(f" {{0,3}}{fence}`*[ \t]*", line):
                fence = ""
        elif ticks:
            assert re.fullmatch(r"`{3,}diff", line), line
            fence = ticks[1]
        else:
            assert _LINES.fullmatch(line), line
    assert not fence
