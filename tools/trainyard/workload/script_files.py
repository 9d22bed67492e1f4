"""Files that a container's own script writes, and whose text the manifest holds."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.objects.objects import Spot
from trainyard.workload.model import Container
from trainyard.workload.plain import sequence

_HERE = re.compile(
    r"(?:cat|tee)[ \t]+(?:>[ \t]*)?(?P<path>[^\s<>|;&]+)[ \t]*<<-?[ \t]*(?P<mark>['\"]?)(?P<end>\w+)(?P=mark)"
    r"|cat[ \t]*<<-?[ \t]*(?P<mark2>['\"]?)(?P<end2>\w+)(?P=mark2)[ \t]*>[ \t]*(?P<path2>[^\s<>|;&]+)"
)
_PRINTED = re.compile(
    r"\b(?P<by>printf|echo)\s+(?P<flags>(?:-[neE]+\s+)*)(?P<quote>['\"])(?P<text>(?:(?!(?P=quote)).)*)(?P=quote)"
    r"\s*>\s*(?P<path>[^\s<>|;&]+)",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<plain>[A-Za-z_]\w*))\Z")
_PRINTED_VARIABLE = re.compile(
    r"\b(?:printf\s+['\"]?%s(?:\\n)?['\"]?|echo)\s+\"?(?P<variable>\$\{?[A-Za-z_]\w*\}?)\"?\s*>\s*(?P<path>[^\s<>|;&]+)"
)


@dataclass(frozen=True, slots=True)
class File:
    """A file's text, and the field that holds it."""

    path: str
    text: str
    spot: Spot


def written(container: Container) -> Iterator[File]:
    """Files that a script writes word for word: from lines of its own (`cat > ds.json <<EOF`), by echo or printf, or
    from a variable whose value is known.
    """
    for name in ("command", "args"):
        for index, script in enumerate(sequence(container.data.get(name))):
            if isinstance(script, str) and ("<<" in script or ">" in script):
                spot = container.spot.below(name, index)
                yield from _from_lines(script, spot)
                yield from _printed(script, spot)
                yield from _from_variables(script, container)


def _from_lines(script: str, spot: Spot) -> Iterator[File]:
    lines = script.split("\n")
    rows: dict[str, list[int]] = {}
    for row, line in enumerate(lines):
        rows.setdefault(line.strip(" \t"), []).append(row)
    row = 0
    while row < len(lines):
        match = _HERE.search(lines[row])
        row += 1
        ends = rows.get(match["end"] or match["end2"], []) if match else []
        at = bisect_left(ends, row)
        if match is None or at == len(ends):
            continue
        text = "\n".join(lines[row : ends[at]])
        row = ends[at] + 1
        if text and (match["mark"] or match["mark2"] or not re.search(r"[$`\\]", text)):
            yield File((match["path"] or match["path2"]).strip("'\""), text, spot)


def _printed(script: str, spot: Spot) -> Iterator[File]:
    for match in _PRINTED.finditer(script):
        text, expands = match["text"], match["by"] == "printf" or "e" in match["flags"]
        if (match["quote"] == '"' and re.search(r"[$`]", text)) or (match["by"] == "printf" and "%" in text):
            continue
        if expands:
            text = text.replace("\\n", "\n").replace("\\t", "\t")
        yield File(match["path"].strip("'\""), text.replace('\\"', '"') if match["quote"] == '"' else text, spot)


def _from_variables(script: str, container: Container) -> Iterator[File]:
    for match in _PRINTED_VARIABLE.finditer(script):
        named = _VARIABLE.match(match["variable"])
        found = container.env.get((named["braced"] or named["plain"]) if named else "")
        if found is not None and found.value is not None:
            yield File(match["path"].strip("'\""), found.value, found.spot)
