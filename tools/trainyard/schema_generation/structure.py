"""One structural schema as JSON Schema draft 7, and of a custom resource the rules in CEL that hang on it.

Both dialects come through here: the OpenAPI v3 documents of Kubernetes and the schemas in CustomResourceDefinitions.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.schemas.expressions import RULES, is_usable

Schema = dict[str, Any]
Convert = Callable[[Schema, str], Schema]

QUANTITY = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+\.?[0-9]*|\.[0-9]+))?$"
"""A Kubernetes quantity: a decimal number with a binary suffix, a decimal suffix or an exponent."""

_REF = "#/components/schemas/"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_BOUNDS = (
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "uniqueItems",
)
_ITEM, _VALUE = "[]", ".*"
"""How the items of a list and the values of a map are named."""
_OF_A_RULE = ("rule", "message", "messageExpression", "fieldPath")
_KNOWN_TYPES: Mapping[str, Schema] = {
    # A schema may hold schemas without end; the API server judges them.
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": {"type": "object"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["number", "string"], "pattern": QUANTITY},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["integer", "string"]},
}


class StructureError(Exception):
    """A schema uses a keyword that this generator has no translation for: dropping it would check less, in silence."""


def core(schemas: Mapping[str, Schema], name: str) -> Schema:
    """The type `name` of an OpenAPI document with every reference put in its place.

    Objects with listed properties take no others; objects without any stay open, since they hold free-form documents.
    """

    def convert(node: Schema, where: str) -> Schema:
        node = _without_wrapper(node)
        if reference := node.get("$ref"):
            target = str(reference).removeprefix(_REF)
            return _KNOWN_TYPES[target] if target in _KNOWN_TYPES else convert(schemas[target], target)
        _refuse(node, where, {"not", "oneOf", "anyOf", "allOf"})
        return _node(node, where, convert, node.get("required", []), closed="properties" in node)

    return convert(schemas[name], name)


def object_meta(schemas: Mapping[str, Schema]) -> Schema:
    """The metadata of every object."""
    return core(schemas, _OBJECT_META)


def custom(schema: Schema, where: str, filled: frozenset[str] = frozenset()) -> Schema:
    """A schema from a CustomResourceDefinition, whose kind is `where`.

    The API server drops fields that it does not list, in silence, so they are refused here. Required fields with a
    default, and those that are `filled` by a webhook, are not required: both come before the schema. Of the defaults
    those are kept that a rule on a node above may read.
    """

    def convert(node: Schema, where: str, read: frozenset[str] = frozenset()) -> Schema:
        if not where.endswith((_ITEM, _VALUE)) and where.rpartition(".")[2] not in read:
            read = frozenset()
        rules = _rules(node, where)
        below = read.union(*(re.findall(r"\w+", rule["rule"]) for rule in rules))
        result = convert_node(node, where, lambda child, at: convert(child, at, below))
        if rules:
            result[RULES] = rules
        if read and "default" in node:
            result["default"] = node["default"]
        return result

    def convert_node(node: Schema, where: str, convert: Convert) -> Schema:
        if node.get("x-kubernetes-int-or-string"):
            return {"type": _types(["integer", "string"], node), **_bounds(node)}
        _refuse(node, where, {"not", "oneOf", "anyOf", "allOf", "$ref"})
        properties = node.get("properties", {})
        required = [
            name
            for name in node.get("required", [])
            if "default" not in properties.get(name, {}) and f"{where}.{name}" not in filled
        ]
        closed = node.get("type") == "object" and not (
            node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-embedded-resource")
        )
        return _node(node, where, convert, required, closed)

    return convert(schema, where)


def _node(node: Schema, where: str, convert: Convert, required: list[str], closed: bool) -> Schema:
    result: Schema = _bounds(node)
    if "type" in node:
        result["type"] = _types([node["type"]], node)
    if "properties" in node:
        result["properties"] = {k: convert(v, f"{where}.{k}") for k, v in node["properties"].items()}
    if required:
        result["required"] = sorted(required)
    if "items" in node:
        result["items"] = convert(node["items"], where + _ITEM)
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        result["additionalProperties"] = convert(values, where + _VALUE)
    elif values is None and closed:
        result["additionalProperties"] = False
    return result


def _rules(node: Schema, where: str) -> list[dict[str, str]]:
    """The rules on a node that judge an object when it is created: those of `oldSelf` judge a change of one."""
    rules = []
    for rule in node.get(RULES, []):
        if not re.search(r"\boldSelf\b", rule["rule"]):
            if not all(is_usable(rule[key]) for key in ("rule", "messageExpression") if key in rule):
                raise StructureError(f"{where}: no translation for the rule {rule['rule']}")
            rules.append({key: value for key, value in rule.items() if key in _OF_A_RULE})
        elif rule.get("optionalOldSelf"):
            raise StructureError(f"{where}: no translation for the rule {rule['rule']}, which judges new objects too")
    return rules


def _types(types: list[str], node: Schema) -> str | list[str]:
    if node.get("nullable"):
        types = [*types, "null"]
    return types[0] if len(types) == 1 else sorted(types)


def _bounds(node: Schema) -> Schema:
    bounds = {key: node[key] for key in _BOUNDS if key in node}
    if "pattern" in bounds:
        bounds["pattern"] = _without_flag(bounds["pattern"])
    return bounds


def _without_flag(pattern: str) -> str:
    """Go's `(?i)` written out: JSON Schema's regular expressions have no flags."""
    if "(?i)" not in pattern:
        return pattern
    letters = r"[a-zA-Z]-[a-zA-Z]|[a-zA-Z]"

    def both_cases(token: re.Match[str]) -> str:
        text = token[0]
        if text.startswith("["):
            return text[:-1] + "".join(re.findall(letters, text)).swapcase() + "]"
        return f"[{text}{text.swapcase()}]" if text.isalpha() else text

    return re.sub(r"\\.|\[(?:\\.|[^\]])*\]|.", both_cases, pattern.replace("(?i)", ""))


def _without_wrapper(node: Schema) -> Schema:
    """OpenAPI hangs a default beside a reference by wrapping it: {"allOf": [{"$ref": ...}], "default": {}}."""
    wrapped = node.get("allOf")
    return wrapped[0] if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0] else node


def _refuse(node: Schema, where: str, keywords: set[str]) -> None:
    if found := sorted(keywords & node.keys()):
        raise StructureError(f"{where}: no translation for {', '.join(found)}")
