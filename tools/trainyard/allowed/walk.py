"""What the statement refuses of an object."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.allowed.statement import Anything, Field, Fields, Items, Laid, Limit, Node, Values
from trainyard.allowed.statement_limits import LIMITS
from trainyard.allowed.team import Context
from trainyard.yaml.fieldpath import Path


@dataclass(frozen=True, slots=True)
class Refusal:
    """One field that the statement does not let through."""

    path: Path
    name: str
    """How the statement calls the field, and team.yaml too."""
    node: Node
    """What the statement says of it; Anything where it does not know the field."""
    value: Any
    is_missing: bool = False
    """True where it must be there."""

    @property
    def is_unknown(self) -> bool:
        """True where the statement does not know the field."""
        return isinstance(self.node, Anything)

    @property
    def is_value(self) -> bool:
        """True where the field may be there, but not with this value."""
        return not self.is_unknown and not self.is_missing


def refusals(node: Node, data: Any, context: Context) -> Iterator[Refusal]:
    """All that is refused, in the order of the object. A value of the wrong type is left to its schema."""
    more = context.team["fields"] if context.team is not None else ()
    for found in _Walk(context).node(node, data, (), "", True):
        if found.is_missing or found.name not in more:
            yield found


@dataclass(frozen=True, slots=True)
class _Walk:
    context: Context

    def node(self, node: Node, value: Any, path: Path, name: str, whole: bool) -> Iterator[Refusal]:
        """`whole`: what must be there must be."""
        if isinstance(node, Fields):
            if isinstance(value, dict):
                yield from self._fields(node, value, path, whole)
        elif isinstance(node, Items):
            for index, item in enumerate(value if isinstance(value, list) else ()):
                yield from self.node(node.item, item, (*path, index), name, whole)
        elif isinstance(node, Laid):
            yield from self.node(node.node, value, path, name, False)
        elif isinstance(node, Values):
            if not any(type(each) is type(value) and each == value for each in node.values):
                yield Refusal(path, name, node, value)
        elif isinstance(node, Limit) and not LIMITS[node.limit].holds(value, str(path[-1]), self.context):
            yield Refusal(path, name, node, value)

    def _fields(self, node: Fields, value: Mapping[Any, Any], path: Path, whole: bool) -> Iterator[Refusal]:
        for key, below in value.items():
            if below is None:
                continue
            field, name = node.of(str(key)), f"{node.name}.{key}"
            if field is None:
                yield Refusal((*path, key), name, Anything(), below)
            elif not (isinstance(field.node, Anything) or (whole and _is_missing(field, below))):
                yield from self.node(field.node, below, (*path, key), name, whole)
        if whole:
            yield from self._missing(node, value, path)
        if node.limit and not LIMITS[node.limit].holds(value, "", self.context):
            key = LIMITS[node.limit].field
            yield Refusal((*path, key), node.name, Limit(node.limit), value.get(key))

    def _missing(self, node: Fields, value: Mapping[Any, Any], path: Path) -> Iterator[Refusal]:
        for key, field in node.fields.items():
            if _is_missing(field, value.get(key)):
                yield Refusal((*path, key), f"{node.name}.{key}", field.node, None, is_missing=True)


def _is_missing(field: Field, value: Any) -> bool:
    if not field.required:
        return False
    return value is None or (isinstance(field.node, Fields | Items) and not value)
