"""The CustomResourceDefinition of Team, from its schema: what the platform team writes, the API server holds to it."""

import json
from collections.abc import Mapping
from typing import Any

from trainyard.allowed.kinds import plural
from trainyard.allowed.team import API_VERSION, KIND, SCHEMA

_KEPT = ("type", "description", "required", "pattern", "minLength", "enum", "default")


def definition() -> dict[str, Any]:
    """The definition as an object."""
    group, _, version = API_VERSION.rpartition("/")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    served = {"type": "object", "description": schema["description"], "required": ["spec"]}
    served["properties"] = {"spec": _structural(schema["properties"]["spec"])}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(KIND)}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": plural(KIND), "singular": KIND.lower()},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": served}},
            ],
        },
    }


def _structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as definitions have it: an object lists its fields, takes texts under any name, or takes anything."""
    found = {key: schema[key] for key in _KEPT if key in schema}
    if "enum" in schema:
        found["type"] = "string"
    if "items" in schema:
        found["items"] = _structural(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: _structural(below) for name, below in schema["properties"].items()}
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _structural(schema["additionalProperties"])
    elif schema.get("type") == "object":
        found["x-kubernetes-preserve-unknown-fields"] = True
    return found
