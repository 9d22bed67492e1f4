"""Where the fields of objects were written."""

from dataclasses import dataclass
from typing import Protocol

from trainyard.findings.finding import Position
from trainyard.objects.objects import Object
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class Trace:
    """The way to a field, as it was written."""

    nodes: tuple[Node, ...]
    """From the object down to the field, as far as they are there; those of a document in a string among them."""
    copied_from: Position | None = None
    """Where the wiring copies the last of them from, if it does."""


class Origin(Protocol):
    """Knows where the fields of a unit's objects were written."""

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there; None where that is not known."""

    def trace(self, rendered: Object, path: Path) -> Trace | None:
        """The way to a field; None where that is not known."""
