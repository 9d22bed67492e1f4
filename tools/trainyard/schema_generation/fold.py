"""A schema with each repeated part written once, and its text."""

import json
from dataclasses import dataclass, field

from trainyard.schema_generation.structure import Schema

_WORTH_FOLDING = 160
"""Characters of JSON below which a repeated part is clearer in place."""

_LINE = 120


@dataclass(slots=True)
class _Part:
    """One distinct schema: its own keywords, and its children by where they hang."""

    own: Schema
    properties: dict[str, int] = field(default_factory=dict)
    items: int | None = None
    values: int | None = None
    size: int = 0

    def children(self) -> list[tuple[str, int]]:
        """(property name, or empty for items and map values; number of the child), in the order of the text."""
        below = [("", child) for child in (self.values, self.items) if child is not None]
        return below + sorted(self.properties.items())


class _Parts:
    """Every distinct schema below a root, numbered, children before parents."""

    def __init__(self, root: Schema) -> None:
        self.parts: list[_Part] = []
        self._numbers: dict[str, int] = {}
        self.root = self._number(root)

    def _number(self, schema: Schema) -> int:
        children = ("properties", "items", "additionalProperties")
        part = _Part({key: value for key, value in schema.items() if key not in children})
        part.properties = {name: self._number(child) for name, child in schema.get("properties", {}).items()}
        if "items" in schema:
            part.items = self._number(schema["items"])
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            part.values = self._number(values)
        elif values is not None:
            part.own["additionalProperties"] = values
        key = json.dumps([part.own, part.properties, part.items, part.values], sort_keys=True)
        if key not in self._numbers:
            part.size = len(json.dumps(part.own)) + sum(
                len(name) + self.parts[child].size for name, child in part.children()
            )
            self._numbers[key] = len(self.parts)
            self.parts.append(part)
        return self._numbers[key]

    def repeated(self) -> set[int]:
        """Parts that hang in more than one place of the distinct schemas and are long enough to matter."""
        uses = [0] * len(self.parts)
        for part in self.parts:
            for _, child in part.children():
                uses[child] += 1
        return {n for n, used in enumerate(uses) if used > 1 and self.parts[n].size >= _WORTH_FOLDING}


def fold(schema: Schema) -> Schema:
    """The same schema with repeated parts under `definitions`, named after the first field that holds them."""
    parts = _Parts(schema)
    repeated = parts.repeated()
    names = _names(parts, repeated)

    def write(number: int, *, in_place: bool) -> Schema:
        if number in names and not in_place:
            return {"$ref": f"#/definitions/{names[number]}"}
        part = parts.parts[number]
        result = dict(part.own)
        if part.properties:
            result["properties"] = {name: write(child, in_place=False) for name, child in part.properties.items()}
        if part.items is not None:
            result["items"] = write(part.items, in_place=False)
        if part.values is not None:
            result["additionalProperties"] = write(part.values, in_place=False)
        return result

    result = write(parts.root, in_place=True)
    if names:
        result["definitions"] = {name: write(number, in_place=True) for number, name in names.items()}
    return result


def _names(parts: _Parts, repeated: set[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    seen: set[int] = set()

    def visit(number: int, field_name: str) -> None:
        if number in seen:
            return
        seen.add(number)
        if number in repeated:
            taken = set(names.values())
            name, count = field_name, 1
            while name in taken:
                count += 1
                name = f"{field_name}{count}"
            names[number] = name
        for child_name, child in parts.parts[number].children():
            visit(child, child_name or field_name)

    visit(parts.root, "object")
    return names


def to_text(schema: Schema) -> str:
    """JSON with sorted keys in which whatever fits a line is one: short to keep, and a change shows where it is."""
    return _lines(schema, "") + "\n"


def _lines(value: object, indent: str) -> str:
    flat = json.dumps(value, sort_keys=True)
    if len(indent) + len(flat) < _LINE or not isinstance(value, dict | list):
        return flat
    deeper = indent + " "
    if isinstance(value, list):
        inner = [_lines(item, deeper) for item in value]
        return "[\n" + ",\n".join(deeper + text for text in inner) + f"\n{indent}]"
    pairs = [f"{json.dumps(key)}: {_lines(value[key], deeper)}" for key in sorted(value)]
    return "{\n" + ",\n".join(deeper + text for text in pairs) + f"\n{indent}}}"
