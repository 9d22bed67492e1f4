"""Keeps secrets that stand in manifests out of what is printed about them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

import yaml

from trainyard import limits
from trainyard.findings.finding import Finding, Position
from trainyard.yaml.sources import Sources

SECRET = "SEC001"
"""The rule whose findings point at secrets."""

SHOWN = 4
"""Characters of a secret that are shown, so that its owner knows it again."""

_CUT = "..."
_MOST = 100
"""Of a text with more secrets nothing is shown."""
_SHORTEST = 6
"""A shorter text is too likely to be part of other words."""


class MaskedLines:
    """Source lines as reports may show them."""

    def __init__(self, sources: Sources, findings: Iterable[Finding]) -> None:
        self._sources = sources
        self._secrets: dict[str, list[Position]] = defaultdict(list)
        self._starts: dict[str, dict[int, int]] = {}
        self._shown: dict[tuple[str, int], str] = {}
        for finding in findings:
            position = finding.place.position
            if finding.rule == SECRET and position is not None:
                self._secrets[position.file].append(position)

    def line(self, file: str, number: int) -> str | None:
        """A line, counted from 1, without the secrets in it; None where there is none."""
        known = self._shown.get((file, number))
        if known is not None:
            return known
        lines = self._sources.lines(file)
        if not 0 < number <= len(lines):
            return None
        line = lines[number - 1]
        start = self._masked_from(file).get(number)
        shown = self._shown[file, number] = without_tokens(line if start is None else _cut(line, start))
        return shown

    def _masked_from(self, file: str) -> dict[int, int]:
        """For each line that holds a secret, or a part of one, how many of its characters may be shown."""
        if file not in self._secrets:
            return {}
        found = self._starts.get(file)
        if found is None:
            found = self._starts[file] = {}
            ends = _Ends(self._sources, file)
            for position in self._secrets[file]:
                last = ends.last_line(position)
                for line in range(position.line, last + 1):
                    start = position.column - 1 + SHOWN if line == position.line else 0
                    found[line] = min(found.get(line, start), start)
        return found


def without(finding: Finding, secrets: Collection[str]) -> Finding:
    """A finding that quotes none of the secrets, and nothing that looks like one, in texts of a bounded length."""
    return replace(
        finding,
        message=cleaned(finding.message, secrets),
        help=cleaned(finding.help, secrets),
        place=replace(finding.place, label=cleaned(finding.place.label, secrets)),
        related=tuple(replace(place, label=cleaned(place.label, secrets)) for place in finding.related),
    )


def cleaned(text: str, secrets: Collection[str]) -> str:
    """A text that quotes none of the secrets, and nothing that looks like one, of a bounded length."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, secret[:SHOWN] + _CUT)
    text = without_tokens(text)
    return text if len(text) <= limits.MESSAGE_CHARACTERS else text[: limits.MESSAGE_CHARACTERS] + _CUT


def without_tokens(text: str) -> str:
    """A text in which everything that looks like a token of a known kind is cut."""
    from trainyard.rules.common.plain_secrets import known_secrets

    secrets = dict.fromkeys(known_secrets(text))
    if len(secrets) > _MOST:
        return _CUT
    for secret in secrets:
        text = text.replace(secret, secret[:SHOWN] + _CUT)
    return text


def _cut(line: str, start: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    start = max(start, indent)
    return line if len(line) <= start else line[:start] + _CUT


class _Ends:
    """Where the texts of a file end that have several lines."""

    def __init__(self, sources: Sources, file: str) -> None:
        self._lines = len(sources.lines(file))
        self._texts: list[tuple[int, int, int]] = []
        """First line, last line and last column, the lines from 1, in order."""
        self._is_known = True
        try:
            for token in yaml.scan(sources.text(file), Loader=yaml.CSafeLoader):
                if isinstance(token, yaml.ScalarToken):
                    self._texts.append((token.start_mark.line + 1, token.end_mark.line + 1, token.end_mark.column))
        except yaml.YAMLError:
            self._is_known = False

    def last_line(self, position: Position) -> int:
        """The last line of the text that stands at a position or around it; of the file where that is not known."""
        if not self._is_known:
            return self._lines
        at = bisect_left(self._texts, position.line, key=lambda text: text[1])
        for first, last, column in self._texts[at : at + _NEAR]:
            if first > position.line:
                return position.line
            if (last, column) >= (position.line, position.column):
                return last if column else last - 1
        return position.line if len(self._texts) <= at + _NEAR else self._lines


_NEAR = 1_000
"""Texts of one line that are looked at."""
