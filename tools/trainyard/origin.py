"""Where the fields of objects were written."""

from typing import Protocol

from trainyard.fieldpath import Path
from trainyard.finding import Position
from trainyard.objects import Object


class Origin(Protocol):
    """Knows where the fields of a unit's objects were written."""

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there; None where that is not known."""
