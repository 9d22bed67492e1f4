"""The fields that a JSON schema names, and trees with one of them set."""

from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]
Steps = tuple[str, ...]
FIRST = "0"
"""The step into a list."""


def fields(schema: Json, depth: int = 14) -> Iterator[tuple[Steps, Any]]:
    """Every field, each with a value of its type."""
    return _fields(schema, schema, (), depth)


def _fields(schema: Mapping[str, Any], root: Json, steps: Steps, depth: int) -> Iterator[tuple[Steps, Any]]:
    for name, below in _resolved(schema, root).get("properties", {}).items():
        below = _resolved(below, root)
        is_list = _type(below) == "array"
        yield (*steps, name), _sample(below, root)
        if depth:
            item = _resolved(below.get("items", {}), root) if is_list else below
            yield from _fields(item, root, (*steps, name, *((FIRST,) if is_list else ())), depth - 1)


def _resolved(schema: Mapping[str, Any], root: Json) -> Mapping[str, Any]:
    while "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].split("/")[1:]:
            found = found[step]
        schema = found
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    return str(kind[0] if isinstance(kind, list) else kind)


def _sample(schema: Mapping[str, Any], root: Json) -> Any:
    """A value of a schema's type; of an object whose fields are known, an empty one."""
    if _type(schema) == "array":
        return [_sample(_resolved(schema.get("items", {}), root), root)]
    if schema.get("enum"):
        return schema["enum"][-1]
    if _type(schema) == "object":
        below = schema.get("additionalProperties")
        named = _sample(_resolved(below, root), root) if isinstance(below, dict) else "1"
        return {} if "properties" in schema else {"x": named}
    return {"boolean": True, "integer": 7, "number": 7}.get(_type(schema), "x")


def changed(tree: Any, steps: Steps, value: Any) -> Any:
    """A copy of a tree with one field set; the maps and lists above it are made where they are missing."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step == FIRST:
        items = tree if isinstance(tree, list) and tree else [{}]
        return [changed(items[0], rest, value), *items[1:]]
    known = tree if isinstance(tree, dict) else {}
    return known | {step: changed(known.get(step), rest, value)}
