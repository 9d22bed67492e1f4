"""Objects that break one validation rule of their kind's definition each, and near misses, made from rules.yaml."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.schemas.conftest import HERE, HOME, unit_of
from trainyard.objects.objects import Object
from trainyard.schemas.expressions import RULES
from trainyard.schemas.schema import schema_of

Json = dict[str, Any]
Path = tuple[str | int, ...]

CASES: list[Json] = yaml.safe_load((HERE / "rules.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Case:
    """A rule on a node of a kind's schema."""

    path: Path
    message: str
    rule: str
    broken: Json
    """The good object of the kind, changed so that it breaks the rule."""
    kept: Json
    """The good object of the kind, changed to something like it that breaks none."""


def cases() -> list[Any]:
    """Every rule of every schema, as parameters of a test."""
    found: list[Any] = []
    for file in sorted((HERE / "good").glob("*.yaml")):
        for good in unit_of(file).objects:
            schema_file = schema_of(HOME / "schemas", good.api_version, good.kind)
            assert schema_file is not None
            schema = json.loads(schema_file.read_bytes())
            for path, rule in _rules(schema.get("definitions", {}), schema, ()):
                case = Case(path, rule["message"], rule["rule"], *_objects(good, path, rule["rule"]))
                found.append(pytest.param(case, id=f"{schema_file.stem}-{len(found)}"))
    return found


def _objects(good: Object, path: Path, rule: str) -> tuple[Json, Json]:
    (case,) = (case for case in CASES if case["rule"] == rule and case.get("field") in (None, *path[-1:]))
    place = path[: len(path) - case.get("up", 0)]
    return _with(good.data, place, case["broken"]), _with(good.data, place, case["kept"])


def _rules(definitions: Json, node: Json, path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    for rule in node.get(RULES, ()):
        yield path, rule
    for name, below in node.get("properties", {}).items():
        yield from _rules(definitions, below, (*path, name))
    if "items" in node:
        yield from _rules(definitions, node["items"], (*path, 0))


def _with(data: Json, path: Path, change: Any) -> Json:
    """A copy of an object with a change merged onto a place in it, which is made where it is missing."""
    holder: list[Any] = [copy.deepcopy(data)]
    at: Any = holder
    key: str | int = 0
    for step in path:
        if isinstance(at, dict):
            at.setdefault(key, [] if step == 0 else {})
        elif len(at) == key:
            at.append({})
        at, key = at[key], step
    if isinstance(at, list) and not at:
        at.append({})
    before = at.get(key) if isinstance(at, dict) else at[key]
    at[key] = _merged(before, change)
    result: Json = holder[0]
    return result


def _merged(before: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    before = before if isinstance(before, dict) else {}
    merged = before | {name: _merged(before.get(name), value) for name, value in change.items()}
    return {name: value for name, value in merged.items() if value is not None}
