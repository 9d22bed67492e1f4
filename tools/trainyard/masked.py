"""Keeps secrets that stand in manifests out of what is printed about them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from trainyard.finding import Finding, Position
from trainyard.sources import Sources

SECRET = "SEC001"
"""The rule whose findings point at secrets."""

SHOWN = 4
"""Characters of a secret that are shown, so that its owner knows it again."""

_CUT = "..."
_SHORTEST = 6
"""A shorter text is too likely to be part of other words."""


class MaskedLines:
    """Source lines as reports may show them."""

    def __init__(self, sources: Sources, findings: Iterable[Finding]) -> None:
        self._sources = sources
        self._secrets: dict[str, list[Position]] = defaultdict(list)
        self._starts: dict[str, dict[int, int]] = {}
        for finding in findings:
            position = finding.place.position
            if finding.rule == SECRET and position is not None:
                self._secrets[position.file].append(position)

    def line(self, file: str, number: int) -> str | None:
        """A line, counted from 1, without the secrets in it; None where there is none."""
        lines = self._sources.lines(file)
        if not 0 < number <= len(lines):
            return None
        line = lines[number - 1]
        start = self._masked_from(file).get(number)
        return without_tokens(line if start is None else _cut(line, start))

    def _masked_from(self, file: str) -> dict[int, int]:
        """For each line that holds a secret, or a part of one, how many of its characters may be shown."""
        if file not in self._secrets:
            return {}
        found = self._starts.get(file)
        if found is None:
            found = self._starts[file] = {}
            for position in self._secrets[file]:
                last = _last_line(self._sources, file, position)
                for line in range(position.line, last + 1):
                    start = position.column - 1 + SHOWN if line == position.line else 0
                    found[line] = min(found.get(line, start), start)
        return found


def without(finding: Finding, secrets: Iterable[str]) -> Finding:
    """A finding that quotes none of the secrets, and nothing that looks like one."""

    def clean(text: str) -> str:
        for secret in secrets:
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, secret[:SHOWN] + _CUT)
        return without_tokens(text)

    return replace(
        finding,
        message=clean(finding.message),
        help=clean(finding.help),
        place=replace(finding.place, label=clean(finding.place.label)),
        related=tuple(replace(place, label=clean(place.label)) for place in finding.related),
    )


def without_tokens(text: str) -> str:
    """A text in which everything that looks like a token of a known kind is cut."""
    from trainyard.rules.secrets import known_secrets

    for secret in known_secrets(text):
        text = text.replace(secret, secret[:SHOWN] + _CUT)
    return text


def _cut(line: str, start: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    start = max(start, indent)
    return line if len(line) <= start else line[:start] + _CUT


def _last_line(sources: Sources, file: str, position: Position) -> int:
    """The last line of the text that stands at a position or around it; of the file where that cannot be told."""
    import yaml

    try:
        for token in yaml.scan(sources.text(file), Loader=yaml.CSafeLoader):
            if not isinstance(token, yaml.ScalarToken):
                continue
            start, end = token.start_mark, token.end_mark
            if start.line < position.line <= end.line + 1 and (end.line + 1, end.column) >= (
                position.line,
                position.column,
            ):
                return int(end.line) + 1 if end.column else int(end.line)
    except yaml.YAMLError:
        return len(sources.lines(file))
    return position.line
