"""Kustomize's regular expressions and label selectors, without the price a stranger's expression could ask.

Go's expressions run in linear time and Python's do not. So only plain ones are replayed: characters, classes,
alternatives and groups that do not repeat. Any other matches nothing here, and what hangs on it has no known position.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

_PLAIN = re.compile(r"[A-Za-z0-9/_ -]*\Z")
_ATOM = re.compile(r"\\[.dwsDWS/_+*?()\[\]{}|^$-]|\[\^?\]?[^\[\]\\]*\]|\((?:\?:)?|\)|[|^$]|[^\\\[\](){}|*+?^$]")
_MOST_REPEATS = 2
_MOST_CHOICES = 6
"""Groups and optional parts: each may double what Python tries."""
_LONGEST = 300

Matcher = Callable[[str], bool]


def is_plain(pattern: str) -> bool:
    """True for an expression that matches its own text alone; an empty one is none."""
    return bool(pattern) and _PLAIN.match(pattern) is not None


@lru_cache(maxsize=4096)
def whole(pattern: str) -> Matcher:
    """Matches texts that the expression matches from end to end. An empty one matches everything."""
    if not pattern:
        return _everything
    if _PLAIN.match(pattern):
        return lambda text: text == pattern
    return _compiled(f"(?:{pattern})\\Z", pattern, search=False)


@lru_cache(maxsize=4096)
def part(pattern: str) -> Matcher:
    """Matches texts in which the expression matches somewhere."""
    if _PLAIN.match(pattern):
        return lambda text: pattern in text
    return _compiled(pattern, pattern, search=True)


def _compiled(expression: str, pattern: str, *, search: bool) -> Matcher:
    if not _is_safe(pattern):
        return _nothing
    try:
        compiled = re.compile(expression, re.ASCII)
    except re.error:
        return _nothing
    run = compiled.search if search else compiled.match
    return lambda text: len(text) <= _LONGEST and run(text) is not None


def _is_safe(pattern: str) -> bool:
    if len(pattern) > _LONGEST:
        return False
    at = repeats = choices = 0
    while at < len(pattern):
        atom = _ATOM.match(pattern, at)
        if atom is None:
            return False
        at = atom.end()
        choices += atom.group() in ("(", "(?:")
        if at < len(pattern) and pattern[at] in "*+?":
            if atom.group() in (")", "(", "(?:", "|"):
                return False
            repeats += pattern[at] != "?"
            choices += pattern[at] == "?"
            at += 1
            if at < len(pattern) and pattern[at] == "?":
                at += 1
    return repeats <= _MOST_REPEATS and choices <= _MOST_CHOICES


def _everything(_: str) -> bool:
    return True


def _nothing(_: str) -> bool:
    return False


_REQUIREMENT = re.compile(
    r"\s*+(!?)\s*+([^\s=!,()]++)\s*+(?:(==?|!=)\s*+([^\s,()]*+)|(in|notin)\s*+\(([^()]*+)\))?\s*+(?:,|\Z)"
)


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels (or annotations) fulfil a selector such as `app=x,tier in (a, b),!legacy`."""
    at = 0
    while at < len(selector):
        found = _REQUIREMENT.match(selector, at)
        if found is None:
            return False
        at = found.end()
        absent, key, sign, value, word, listed = found.groups()
        has = labels.get(key)
        if absent:
            fits = has is None
        elif sign:
            fits = (has == value) if sign != "!=" else has != value
        elif word:
            values = [each.strip() for each in listed.split(",")]
            fits = (has in values) if word == "in" else has not in values
        else:
            fits = has is not None
        if not fits:
            return False
    return True
