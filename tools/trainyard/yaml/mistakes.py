"""Why a text is not YAML, in words that say what to look at."""

import re
from collections.abc import Sequence

import yaml

_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_WORDS = (
    ("mapping values are not allowed", "a second colon on this line, or a wrong indentation; quote text with a colon"),
    ("could not find expected ':'", "a key without its colon"),
    ("expected ':'", "a key without its colon"),
    ("expected ',' or ']'", "a list in [ ] lacks a comma or its closing bracket"),
    ("expected ',' or '}'", "a map in { } lacks a comma or its closing brace"),
    ("unexpected end of stream", "a quoted text is never closed"),
    ("unexpected document separator", "a quoted text is never closed"),
    ("expected '-' indicator", "this line does not line up with the list above it"),
    ("expected <block end>", "this line does not line up with the lines above it"),
    ("expected key", "a key is missing, or this line does not line up with the keys above it"),
    ("block sequence entries are not allowed", "a list item may not start here: put it on a line of its own"),
    ("mapping keys are not allowed", "a key may not start here: put it on a line of its own"),
    ("unknown escape character", "an unknown escape after a backslash; use single quotes to keep backslashes"),
    ("document start", "a second document starts without ---"),
    ("undefined tag handle", "a tag (!name!) that nothing defines"),
    ("expected the node content", "a value is missing or starts with a sign that must be quoted"),
    ("expected node content", "a value is missing or starts with a sign that must be quoted"),
    ("tab character", "a tab indents this line; YAML is indented with spaces"),
)


_BREAK = re.compile("\r\n?|[\n\x85\u2028\u2029]")


def lines_of(text: str) -> list[str]:
    """Lines as the parser counts them, without their ends: the sign of old Macs and of mainframes ends one, too."""
    if "\r" not in text and "\x85" not in text and "\u2028" not in text and "\u2029" not in text:
        return text.split("\n")
    return _BREAK.split(text)


def control_character(text: str) -> tuple[int, int, str] | None:
    """Line, column and name of the first character that YAML forbids, or None."""
    found = _CONTROL.search(text)
    if found is None:
        return None
    above = lines_of(text[: found.start()])
    return len(above), len(above[-1]) + 1, f"U+{ord(found.group()):04X}"


def problem_words(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[str, int, int]:
    """Message, line and column of a parser's error."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    problem = error.problem or ""
    if "cannot start any token" in problem:
        sign = lines[line - 1][column - 1 : column] if 0 < line <= len(lines) else ""
        if sign == "\t":
            return "a tab indents this line; YAML is indented with spaces", line, column
        return f"a value may not start with {sign or 'this sign'}: put it in quotes", line, column
    words = next((words for part, words in _WORDS if part in problem), f"YAML that cannot be read: {problem}")
    start = error.context_mark
    if start is not None and mark is not None and start.line != mark.line and "closed" not in words:
        words += f" (what it belongs to starts on line {start.line + 1})"
    elif start is not None and mark is not None and start.line != mark.line:
        words += f" (it starts on line {start.line + 1})"
    return words, line, column
