"""What a newer schema says otherwise, field by field: for the one who reviews an update of schemas/."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainyard.schemas.expressions import RULES

MOST = 20
"""Fields of one schema that are listed; the rest is counted."""

_DEEPEST = 24
_SAID = (
    *("type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "format", "required", "const"),
    *("default", RULES),
)
"""Keywords of a field whose change is told."""

Fields = Mapping[str, Mapping[str, Any]]


def field_changes(before: str, after: str) -> list[str]:
    """Lines `+ field`, `- field` and `~ field: keyword old -> new` of two schemas. At most MOST and a count."""
    old, new = _fields(json.loads(before)), _fields(json.loads(after))
    lines = [f"- {path}" for path in old if path not in new and _above(path) not in old.keys() - new.keys()]
    lines += [f"+ {path}" for path in new if path not in old and _above(path) not in new.keys() - old.keys()]
    for path in (path for path in old if path in new):
        lines += [
            f"~ {path}: {key} {json.dumps(old[path].get(key))} -> {json.dumps(new[path].get(key))}"
            for key in _SAID
            if old[path].get(key) != new[path].get(key)
        ]
    rest = len(lines) - MOST
    return lines if rest <= 0 else [*lines[:MOST], f"and {rest} more"]


def changed_fields(schemas: Path, files: Mapping[str, str]) -> dict[str, list[str]]:
    """The field changes of every schema in `schemas` that `files` has otherwise, by path."""
    found = {}
    for path, text in sorted(files.items()):
        written = (schemas / path).read_text(encoding="utf-8") if (schemas / path).is_file() else text
        if written != text and (lines := field_changes(written, text)):
            found[path] = lines
    return found


def _fields(schema: Mapping[str, Any]) -> Fields:
    return dict(_walk(schema, schema, "", ()))


def _walk(
    schema: Any, root: Mapping[str, Any], path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reference = schema.get("$ref", "") if isinstance(schema, dict) else ""
    if reference.startswith("#/definitions/"):
        if reference in above or len(above) > _DEEPEST:
            return
        yield from _walk(root["definitions"][reference.removeprefix("#/definitions/")], root, path, (*above, reference))
        return
    if not isinstance(schema, dict):
        return
    if path:
        yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _walk(child, root, f"{path}.{name}" if path else name, above)
    if isinstance(schema.get("items"), dict):
        yield from _walk(schema["items"], root, f"{path}[]", above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _walk(schema["additionalProperties"], root, f"{path}.*", above)


def _above(path: str) -> str:
    return path.removesuffix("[]") if path.endswith("[]") else path.rpartition(".")[0]
