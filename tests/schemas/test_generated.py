"""The generated schemas: each compiles, takes a good object of its kind, and refuses a field that does not exist."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from tests.schemas.conftest import HERE, HOME, unit_of
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schema_generation.generated import generated_paths
from trainyard.schemas.expressions import RULES
from trainyard.schemas.schema import check, schema_of

SCHEMAS = HOME / "schemas"
GENERATED = generated_paths(SCHEMAS)
GOOD = [rendered for file in sorted((HERE / "good").glob("*.yaml")) for rendered in unit_of(file).objects]
BAD = [rendered for file in sorted((HERE / "bad").glob("*.yaml")) for rendered in unit_of(file).objects]


def file_of(rendered: Object) -> Path | None:
    return schema_of(SCHEMAS, rendered.api_version, rendered.kind)


def test_every_schema_has_a_good_object_here() -> None:
    assert sorted(str(file_of(rendered)) for rendered in GOOD) == sorted(str(SCHEMAS / path) for path in GENERATED)


@pytest.mark.parametrize("path", GENERATED)
def test_is_structure_and_rules_only_and_compiles(path: str) -> None:
    schema = json.loads((SCHEMAS / path).read_bytes())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema_rs.validator_for(schema)
    allowed = {
        *("$comment", "$ref", "$schema", "additionalProperties", "definitions", "enum", "exclusiveMinimum", "items"),
        *("default", RULES),
        *("maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum"),
        *("pattern", "properties", "required", "type", "uniqueItems"),
    }
    assert {keyword for node in nodes(schema) for keyword in node} <= allowed


def test_every_root_is_closed_and_knows_its_kind() -> None:
    for path in GENERATED:
        schema = json.loads((SCHEMAS / path).read_bytes())
        group, _, name = path.rpartition("/")
        kind, _, version = name.removesuffix(".json").rpartition("_")
        group = group.removeprefix("kubernetes/")
        assert schema["additionalProperties"] is False
        assert schema["properties"]["apiVersion"] == {"enum": [version if group == version else f"{group}/{version}"]}
        assert [one.lower() for one in schema["properties"]["kind"]["enum"]] == [kind]
        assert {"apiVersion", "kind"} <= set(schema["required"])


def test_an_unknown_field_is_refused_at_every_level() -> None:
    """The same field is put into the root and into each map whose fields are listed, one at a time."""
    units: list[Unit] = []
    expected: list[tuple[Any, ...]] = []
    for rendered in GOOD:
        schema = json.loads(file_of(rendered).read_bytes())  # type: ignore[union-attr]
        for path in closed_maps(schema, schema, rendered.data, ()):
            data = copy.deepcopy(rendered.data)
            below = data
            for step in path:
                below = below[step]
            below["trainyardUnknown"] = 1
            units.append(Unit(rendered.title, False, (Object.of(data, 0),)))
            expected.append((*path, "trainyardUnknown"))
    problems = check(units)
    assert [p.path for p in problems] == expected
    assert {p.message.split(":")[0] for p in problems} == {'unknown field "trainyardUnknown"'}
    assert len(expected) > 400


def test_two_readers_agree() -> None:
    """jsonschema and jsonschema-rs find the same faults at the same places."""
    for rendered in [*GOOD, *BAD]:
        file = file_of(rendered)
        if file is None:
            continue
        schema = json.loads(file.read_bytes())
        slow = sorted(
            (error.json_path, str(error.validator))
            for error in jsonschema.Draft7Validator(schema).iter_errors(rendered.data)
        )
        fast = [
            (json_path(error.instance_path), error.kind.name)
            for error in jsonschema_rs.validator_for(schema).iter_errors(rendered.data)
        ]
        assert sorted(fast) == slow, rendered.title


def test_a_pod_stands_once_in_a_file() -> None:
    for path in GENERATED:
        text = (SCHEMAS / path).read_text()
        assert text.count('"terminationGracePeriodSeconds": {"type": "integer"}') <= 3, path
        assert len(text) < 68_000, path
    assert sum((SCHEMAS / path).stat().st_size for path in GENERATED) < 2_000_000


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for holder in ("properties", "definitions"):
        for below in schema.get(holder, {}).values():
            yield from nodes(below)
    for holder in ("items", "additionalProperties"):
        if isinstance(schema.get(holder), dict):
            yield from nodes(schema[holder])


def closed_maps(root: Any, schema: Any, data: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from closed_maps(root, schema["items"], item, (*path, index))
    elif isinstance(data, dict):
        if schema.get("additionalProperties") is False:
            yield path
        for name, value in data.items():
            below = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if isinstance(below, dict):
                yield from closed_maps(root, below, value, (*path, name))


def json_path(path: list[str | int]) -> str:
    """As jsonschema writes it."""
    text: str = jsonschema.ValidationError("", path=path).json_path
    return text
