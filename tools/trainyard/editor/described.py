"""What the schemas say of a key: its sentence, what it takes, and the keys below it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from trainyard.editor.outline import ITEM
from trainyard.home import HOME
from trainyard.schemas.schema import schema_of

GROUP = "trainyard.dev/"

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxLength": "at most {} characters",
    "pattern": "matches `{}`",
}


@cache
def schema(api_version: str, kind: str) -> Mapping[str, Any] | None:
    """The schema of a kind of ours; None for any other, whose schema has no sentences."""
    file = schema_of(HOME / "schemas", api_version, kind) if api_version.startswith(GROUP) and kind else None
    found: Mapping[str, Any] | None = None if file is None else json.loads(file.read_bytes())
    return found


def at(whole: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """The schema of what a path leads to; None where the schema knows no such key."""
    here = whole
    for step in path:
        if step == ITEM:
            there = here.get("items")
        else:
            there = here.get("properties", {}).get(step, here.get("additionalProperties"))
        if not isinstance(there, Mapping):
            return None
        here = there
    return here


def keys(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The keys that a map may have, with the schema of each."""
    found: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return found


def values(schema: Mapping[str, Any]) -> list[str]:
    """The values that the schema lists, the default first."""
    listed = [schema["const"]] if "const" in schema else list(schema.get("enum", ()))
    if schema.get("type") == "boolean":
        listed = [True, False]
    if isinstance(default := schema.get("default"), str | int | float):
        listed = [default, *(value for value in listed if value != default)]
    return [value if isinstance(value, str) else json.dumps(value) for value in listed]


def takes(schema: Mapping[str, Any]) -> str:
    """What a key takes, in one line: `integer, at least 1, default 8`; empty where the schema says nothing."""
    said = [str(schema["type"])] if "type" in schema else []
    if "const" in schema:
        said.append(f"`{schema['const']}`")
    if "enum" in schema:
        said.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    said += [words.format(schema[name]) for name, words in _BOUNDS.items() if name in schema]
    if "default" in schema:
        default = schema["default"]
        said.append(f"default `{default if isinstance(default, str) else json.dumps(default)}`")
    return ", ".join(said)
