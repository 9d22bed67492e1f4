"""The tables of what older releases of Kubernetes do not know: each entry is there in the release of schemas/."""

import json
from typing import Any

import pytest

from trainyard.home import HOME
from trainyard.schemas import releases
from trainyard.schemas.schema import schema_of

_OBJECTS = [(kind, field) for kind, fields in releases._OBJECT.items() for each in fields.values() for field in each]
_PODS = [
    *(("v1/Pod", f"spec.{field}") for each in releases._POD.values() for field in each),
    *(("v1/Pod", f"spec.initContainers.{field}") for each in releases._CONTAINER.values() for field in each),
]


def _schema(name: str) -> dict[str, Any]:
    api_version, _, kind = name.rpartition("/")
    file = schema_of(HOME / "schemas", api_version, kind)
    assert file is not None, name
    schema: dict[str, Any] = json.loads(file.read_text())
    return schema


@pytest.mark.parametrize(("kind", "field"), [*_OBJECTS, *_PODS])
def test_a_field_is_in_the_schema_of_its_kind(kind: str, field: str) -> None:
    whole = _schema(kind)
    at = whole
    for key in field.split("."):
        at = _plain(whole, _plain(whole, at)["properties"][key])


@pytest.mark.parametrize("kind", releases._KINDS)
def test_a_kind_has_a_schema(kind: str) -> None:
    assert _schema(kind)


def _plain(whole: dict[str, Any], at: dict[str, Any]) -> dict[str, Any]:
    """Without references, and with a list's items in the place of the list."""
    while "$ref" in at or "items" in at or "allOf" in at:
        if "items" in at:
            at = at["items"]
        elif "allOf" in at:
            (at,) = at["allOf"]
        else:
            found: Any = whole
            for key in at["$ref"].removeprefix("#/").split("/"):
                found = found[key]
            at = found
    return at
