"""Places in a text: as findings have them, as offsets, and as an editor counts them."""

import re
from bisect import bisect_right
from collections.abc import Callable

_PARSERS = re.compile("\r\n?|[\n\x85\u2028\u2029]")
"""What ends a line for the YAML parser, and so in findings."""
_EDITORS = re.compile("\r\n?|\n")
"""What ends a line for an editor."""

Units = Callable[[str], int]
"""How long a text is in the units that the editor counts columns in: UTF-16, unless it agreed on others."""


def utf16(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text) + sum(sign > "\uffff" for sign in text)


class Text:
    """A document's text, and where its lines begin."""

    def __init__(self, text: str, units: Units = utf16) -> None:
        self.text = text
        self._units = units
        self._first = 1 if text.startswith("\ufeff") else 0
        """Findings do not count the mark of an encoding."""
        self._starts = [0, *(found.end() for found in _EDITORS.finditer(text))]

    @property
    def lines(self) -> list[str]:
        """The editor's lines, without their ends."""
        return _EDITORS.split(self.text)

    def offset(self, line: int, column: int) -> int:
        """Of a finding's place, from 1. One behind the end of its line is there, one behind the text at its end."""
        line = max(line, 1)
        breaks = list(_PARSERS.finditer(self.text))
        if line - 1 > len(breaks):
            return len(self.text)
        start = self._first if line == 1 else breaks[line - 2].end()
        end = breaks[line - 1].start() if line <= len(breaks) else len(self.text)
        return min(start + max(column - 1, 0), end)

    def line_end(self, offset: int) -> int:
        """Where the line of an offset ends, for the editor."""
        found = _EDITORS.search(self.text, offset)
        return found.start() if found else len(self.text)

    def place(self, offset: int) -> tuple[int, int]:
        """The editor's line and column of an offset, from 0."""
        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self.text[self._starts[line] : offset])

    def character(self, line: int, column: int) -> int:
        """The index in a line of the editor of its column: one inside a character is in front of it."""
        lines = self.lines
        if not 0 <= line < len(lines):
            return 0
        passed = 0
        for index, sign in enumerate(lines[line]):
            passed += self._units(sign)
            if passed > column:
                return index
        return len(lines[line])
