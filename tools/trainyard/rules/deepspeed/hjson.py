"""Hjson, in which DeepSpeed reads its configuration: JSON with comments, and with fewer quotes and commas.

Source: https://hjson.github.io/syntax.html
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

_SKIPPED = re.compile(r"(?:\s+|#[^\n]*|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_BARE_KEY = re.compile(r"[^\s,:\[\]{}]+")
_LITERAL_END = re.compile(r"\s*(?:$|[,\]}#\n]|//|/\*)")
_LONGEST_INTEGER = 18
"""Characters of an integer that is read exactly: Python takes long over hundreds and refuses thousands."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 50


class Refused(ValueError):
    """What is not Hjson; the message says where."""


def loads(text: str) -> Any:
    """The value in the text, as the hjson package reads it. Refused where it is none, or where a key comes twice."""
    reading = _Reading(text)
    reading.skip()
    value = reading.members(braced=False) if reading.rest[:1] not in ("{", "[") else reading.value(0)
    reading.skip()
    if reading.at < len(text):
        raise reading.refusal("more text after the end")
    return value


def strict(text: str) -> Any:
    """The value in the text as Python's json reads it: the last of equal keys counts. Refused where it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise Refused("is nested too deep") from None
    except ValueError as error:
        raise Refused(str(error)) from None


def _shown(name: str) -> str:
    return name if name.isprintable() else json.dumps(name)


@dataclass(slots=True)
class _Reading:
    text: str
    at: int = 0
    rest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.rest = self.text

    def _go(self, to: int) -> None:
        self.at = to
        self.rest = self.text[to : to + 3]

    def refusal(self, reason: str) -> Refused:
        line = self.text.count("\n", 0, self.at) + 1
        return Refused(f"{reason} (line {line})")

    def skip(self) -> None:
        match = _SKIPPED.match(self.text, self.at)
        self._go(match.end() if match else self.at)

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self.refusal("nested too deep")
        if self.rest[:1] == "{":
            self._go(self.at + 1)
            return self.members(braced=True, depth=depth + 1)
        if self.rest[:1] == "[":
            self._go(self.at + 1)
            return self._items(depth + 1)
        if self.rest == "'''":
            return self._block()
        if self.rest[:1] in ('"', "'"):
            return self._quoted()
        return self._bare()

    def members(self, *, braced: bool, depth: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            self.skip()
            if self.at >= len(self.text):
                if braced:
                    raise self.refusal("a map is not closed")
                return found
            if self.rest[:1] == "}" and braced:
                self._go(self.at + 1)
                return found
            name = self._key()
            if name in found:
                raise self.refusal(f"key {_shown(name)} comes twice")
            self.skip()
            if self.rest[:1] != ":":
                raise self.refusal(f"no colon after {_shown(name)}")
            self._go(self.at + 1)
            self.skip()
            found[name] = self.value(depth)
            self._comma()

    def _items(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            self.skip()
            if self.at >= len(self.text):
                raise self.refusal("a list is not closed")
            if self.rest[:1] == "]":
                self._go(self.at + 1)
                return found
            found.append(self.value(depth))
            self._comma()

    def _comma(self) -> None:
        self.skip()
        if self.rest[:1] == ",":
            self._go(self.at + 1)

    def _key(self) -> str:
        if self.rest[:1] in ('"', "'"):
            return self._quoted()
        match = _BARE_KEY.match(self.text, self.at)
        if match is None:
            raise self.refusal("no key where one must stand")
        self._go(match.end())
        return match[0]

    def _quoted(self) -> str:
        quote, end = self.rest[0], self.at + 1
        while end < len(self.text) and self.text[end] not in (quote, "\n"):
            end += 2 if self.text[end] == "\\" else 1
        if self.text[end : end + 1] != quote:
            raise self.refusal("a string is not closed")
        inside = self.text[self.at + 1 : end]
        self._go(end + 1)
        if quote == "'":
            inside = inside.replace("\\'", "'").replace('"', '\\"')
        try:
            return str(json.loads(f'"{inside}"', strict=False))
        except ValueError:
            raise self.refusal("a string has a bad escape") from None

    def _block(self) -> str:
        end = self.text.find("'''", self.at + 3)
        if end < 0:
            raise self.refusal("a string is not closed")
        inside = self.text[self.at + 3 : end]
        self._go(end + 3)
        return inside.strip("\n")

    def _bare(self) -> Any:
        """A number or a word of JSON, else the text up to the end of the line."""
        if self.rest[:1] in (",", ":", "]", "}", ""):
            raise self.refusal("no value where one must stand")
        for word, meaning in _WORDS.items():
            if self.text.startswith(word, self.at) and _LITERAL_END.match(self.text, self.at + len(word)):
                self._go(self.at + len(word))
                return meaning
        number = _NUMBER.match(self.text, self.at)
        if number is not None and _LITERAL_END.match(self.text, number.end()):
            self._go(number.end())
            is_float = any(mark in number[0] for mark in ".eE") or len(number[0]) > _LONGEST_INTEGER
            return float(number[0]) if is_float else int(number[0])
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        text = self.text[self.at : end].strip()
        self._go(end)
        return text
