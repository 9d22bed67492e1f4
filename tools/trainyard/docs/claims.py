"""Which sentences of README and docs/ promise something, and the names by which tests are bound to them.

A sentence with one of WORDS promises something about all or none of a kind. Right behind it stands the name of its
claim, `<!-- claim: name -->`, with which at least one test is marked, or why it promises nothing although it has such
a word, `<!-- no claim: reason -->`. A row of a table is a sentence, and so is a block of code, whose comment stands on
the line below it. Headings are not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.home import HOME

WORDS = (
    *("all", "always", "any", "cannot", "each", "every", "everybody", "everyone", "everything", "never", "no"),
    *("nobody", "none", "nothing", "only", "refuse", "refused", "refuses", "survive", "survives", "whatever"),
)
ELSEWHERE = ("rules", "decisions")
"""Folders of docs/ whose pages have examples that are tests, or say why something was chosen."""

LATER = (
    "docs/benchmarks.md",
    "docs/forecast.md",
    "docs/horovod.md",
    "docs/lifecycle.md",
    "docs/observability.md",
    "docs/trainer.md",
    "docs/rehearsal.md",
    "docs/isolation.md",
    "docs/policy.md",
)
"""Pages whose sentences are not bound yet. The list only shrinks."""

_WORD = re.compile(rf"(?<![\w/.-])(?!each other)(?:{'|'.join(WORDS)})(?![\w/-])", re.IGNORECASE)
_INLINE = re.compile(r"`[^`]*`")
_COMMENT = re.compile(r"<!--\s*(?P<no>no )?claim:\s*(?P<text>[^>]*?)\s*-->")
_MARK = r"\s*\x00(\d+)\x00"
_ONLY_MARKS = re.compile(rf"(?:{_MARK})+\s*")
_END = re.compile(rf"[.!?][*_)\"]*(?:{_MARK})*[*_)\"]*(?=\s+[^a-z\s\x00])")
_STARTS = re.compile(r"\s*(?:[-*] |\d+\. |#)")
_ROW, _CODE, _TEXT = "row", "code", "text"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, row of a table or block of code."""

    file: str
    line: int
    """Where it begins, from 1."""
    text: str
    promises: bool
    """Whether it has one of WORDS, in prose."""
    claims: tuple[str, ...]
    """Names of the claims behind it."""
    excuse: str
    """Why it promises nothing; empty where that is not said."""


@dataclass(slots=True)
class _Block:
    """Lines that belong together: a paragraph or item, a row, a block of code."""

    line: int
    kind: str
    lines: list[str] = field(default_factory=list)


def pages(home: Path = HOME) -> list[str]:
    """The files whose sentences are looked at, relative to the root."""
    docs = sorted(file.relative_to(home).as_posix() for file in (home / "docs").rglob("*.md"))
    return ["README.md", *(page for page in docs if page.split("/")[1] not in ELSEWHERE)]


def without_comments(text: str) -> str:
    """A page as its readers get it."""
    return _COMMENT.sub("", text)


def unbound(text: str, file: str) -> list[Sentence]:
    """Sentences that promise something and name neither a claim nor a reason."""
    return [each for each in sentences(text, file) if each.promises and not each.claims and not each.excuse]


def sentences(text: str, file: str) -> Iterator[Sentence]:
    """The sentences of a page, in order."""
    comments = list(_COMMENT.finditer(text))
    numbers = iter(range(len(comments)))
    for block in _blocks(_COMMENT.sub(lambda _: f"\x00{next(numbers)}\x00", text)):
        for line, part in _parts(block):
            found = [comments[int(number)] for number in re.findall(_MARK, part)]
            said = re.sub(_MARK, "", part).strip()
            prose = said if block.kind == _CODE else _INLINE.sub("", said)
            names = (name for each in found if not each["no"] for name in each["text"].replace(",", " ").split())
            excuse = next((each["text"] for each in found if each["no"]), "")
            yield Sentence(file, line, said, _WORD.search(prose) is not None, tuple(names), excuse)


def _blocks(text: str) -> list[_Block]:
    found: list[_Block] = []
    fenced = goes_on = False
    for number, line in enumerate(text.splitlines(), start=1):
        if fenced or line.lstrip().startswith("```"):
            if not fenced:
                found.append(_Block(number, _CODE))
            found[-1].lines.append(line)
            fenced, goes_on = fenced != line.lstrip().startswith("```"), False
        elif found and _ONLY_MARKS.fullmatch(line):
            found[-1].lines.append(line)
        elif not line.strip():
            goes_on = False
        else:
            kind = _kind(line, found[-1].kind if goes_on else "")
            if not goes_on or kind != found[-1].kind or kind == _ROW or (kind == _TEXT and _STARTS.match(line)):
                found.append(_Block(number, kind))
            found[-1].lines.append(line)
            goes_on = True
    return found


def _kind(line: str, before: str) -> str:
    """What a line is; `before` is what the line right above it is, empty for a blank one."""
    if line.startswith("|"):
        return _ROW
    return _CODE if line.startswith("    ") and before in ("", _CODE) else _TEXT


def _parts(block: _Block) -> Iterator[tuple[int, str]]:
    """The sentences of a block, each with the line that it begins on."""
    text = "\n".join(block.lines)
    if block.kind != _TEXT:
        yield block.line, text
    elif not text.startswith("#"):
        start = 0
        for end in (*(each.end() for each in _END.finditer(text)), len(text)):
            if part := text[start:end].strip():
                yield block.line + text.count("\n", 0, end - len(text[start:end].lstrip())), part
            start = end
