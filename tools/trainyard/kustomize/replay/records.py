"""What the replay tells about wires and patches, for the rules that judge the contract itself."""

from dataclasses import dataclass
from typing import Any

from trainyard.findings.finding import Position
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class ObjectId:
    """What an object is called in the end."""

    api_version: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class End:
    """One end of a wire: a field, its value there and then, and where that was written."""

    object: ObjectId
    path: Path
    node: Node | None
    """None where nothing was written."""

    @property
    def value(self) -> Any:
        """As plain data, made anew each time: few of a job's hundreds of ends are ever looked at."""
        return None if self.node is None else self.node.plain()

    @property
    def mark(self) -> Position | None:
        """Where the value was written."""
        return None if self.node is None else self.node.mark


@dataclass(frozen=True, slots=True)
class Wire:
    """One replacement at one target, or a replacement that reached nothing."""

    replacement: Position | None
    """Its entry in a list of replacements."""
    source: End | None
    """None where no object was found, or it lacks the field. Its path is where that field is in the end."""
    target: End | None
    """None where nothing was selected, or what was written has since been taken out. Its value is the one just after
    writing; its path is where that field is in the end."""
    delimited: bool
    """True where only a part of the text was replaced."""
    problem: str = ""
    """Empty, or: "no source", "several sources", "no source field", "no target", "no target field", "map into text"."""
    path: str = ""
    """The field path that the problem is about, as it was written."""
    instead: Position | None = None
    """Where a patch was written that has put something else on the way to a target field."""


@dataclass(frozen=True, slots=True)
class Write:
    """A value that a patch wrote."""

    object: ObjectId
    path: Path
    value: Any
    mark: Position | None
    overwritten: bool
    """True where something later put another node there, or removed the field."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What vanished when a patch replaced a list that kustomize knows no merge key for."""

    object: ObjectId
    path: Path
    """Of the list item, in the list as it was."""
    name: str
    """Of the item; empty where it has none."""
    fields: tuple[str, ...]
    """Fields of the item that its successor of the same name (or place) lacks; all of them where there is none."""
    mark: Position | None
    """The list in the patch."""


@dataclass(frozen=True, slots=True)
class PatchRecord:
    """One patch and what became of it."""

    entry: Position | None
    """The entry of the kustomization, or the transformer, that names the patch."""
    file: str
    """The file that holds the patch."""
    mark: Position | None
    """The patch itself: its first line."""
    kind: str
    """strategic or json."""
    meant: str
    """Kind of the objects that it is for, an expression where its target says one; empty for any kind."""
    matched: int
    """How many objects it was applied to."""
    writes: tuple[Write, ...]
    losses: tuple[Loss, ...]
    failed: bool
    """True where kustomize would refuse it: an operation or a merge that cannot be done."""
