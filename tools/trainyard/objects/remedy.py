"""What a rule proposes, as data: changes of fields of rendered objects. `fixes` finds the text that holds them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainyard.objects.objects import Spot


class Act(Enum):
    """What is done to a field."""

    SET = "set"
    """Give it a value; where it is absent it is written, with the maps above it that are missing."""
    WORD = "word"
    """Replace one word of the text that it holds, and leave the rest."""
    BEGIN = "begin"
    """Put a command at the beginning of the script that it holds, and leave the rest."""
    RENAME = "rename"
    """Give its key another name."""
    REMOVE = "remove"
    """Take it away: a key with its value, or an item of a list."""
    ADD = "add"
    """Put an item at the end of the list that it holds."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field to change."""

    act: Act
    spot: Spot
    value: Any = None
    """The new value, plain data; the new name of the key; the new word; or the item that is added."""
    old: str = ""
    """The word that is replaced."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes that together put one finding right. All are made, or none."""

    changes: tuple[Change, ...]
    safe: bool = True
    """False where the job would mean something else afterwards than what was written, or where the choice is one of
    several that make sense."""
    says: str = ""
    """One sentence in the imperative; empty where the help of the problem says it."""

    def unsafe(self) -> "Remedy":
        """The same, to be made only where unsafe fixes are asked for."""
        return Remedy(self.changes, False, self.says)

    def saying(self, words: str) -> "Remedy":
        """The same, in other words than the help of the problem."""
        return Remedy(self.changes, self.safe, words)

    def __and__(self, other: "Remedy") -> "Remedy":
        """Both together; safe where both are."""
        return Remedy(self.changes + other.changes, self.safe and other.safe, self.says or other.says)


def put(spot: Spot, value: Any) -> Remedy:
    """Give a field a value."""
    return Remedy((Change(Act.SET, spot, value),))


def reword(spot: Spot, old: str, new: str) -> Remedy:
    """Replace one word of a text, such as an argument in a command line."""
    return Remedy((Change(Act.WORD, spot, new, old),))


def begin(spot: Spot, command: str) -> Remedy:
    """Put a command at the beginning of a script."""
    return Remedy((Change(Act.BEGIN, spot, command),))


def rename(spot: Spot, key: str) -> Remedy:
    """Give the key of a field another name."""
    return Remedy((Change(Act.RENAME, spot, key),))


def remove(spot: Spot) -> Remedy:
    """Take a field or an item of a list away."""
    return Remedy((Change(Act.REMOVE, spot),))


def add(spot: Spot, item: Any) -> Remedy:
    """Put an item at the end of a list."""
    return Remedy((Change(Act.ADD, spot, item),))


def all_of(remedies: Iterable[Remedy | None]) -> Remedy | None:
    """All of them together; None where one is missing, or there are none."""
    together: Remedy | None = None
    for remedy in remedies:
        if remedy is None:
            return None
        together = remedy if together is None else together & remedy
    return together
