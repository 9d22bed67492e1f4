"""Rules in CEL that definitions of custom resources bring, judged as the API server judges an object that is new.

The rules stand in the generated schemas, on the node that they are about. The CEL project's own library evaluates
them. It has none of Kubernetes' functions, so `tools/update-schemas` stops at a rule that asks for one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainyard.schemas.filledin import is_filled_in
from trainyard.yaml.fieldpath import Path

RULES = "x-kubernetes-validations"
"""The keyword that lists the rules of a node."""

Json = dict[str, Any]

_ESCAPED = re.compile(r"__[a-z]+__")
"""How Kubernetes writes, within a rule, names of fields that CEL has no way to write: a__dash__b."""

_FIELD = re.compile(r"\.([^.\[\]]+)|\['([^']*)'\]")
"""A step of a fieldPath: .spec or ['spec']."""

_KEPT_OF_GENERATE_NAME = 58
_ADDED_TO_GENERATE_NAME = "xxxxx"
"""The API server makes a name before it asks any rule, and its letters break none that the beginning does not."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that an object breaks."""

    path: Path
    """The field that the rule is about; where it is not there, the nearest around it that is."""
    message: str
    """The definition's own words."""


def is_usable(expression: str) -> bool:
    """Whether an expression of a rule can be evaluated here."""
    try:
        _compiled(expression)
    except RuntimeError:
        return False
    return _ESCAPED.search(expression) is None


def broken_rules(schema: Json, document: Json, *, is_final: bool) -> list[Broken]:
    """The rules of a schema that a document breaks in which the schema finds nothing else, by their place in it.

    Defaults that a rule may read are filled in first. Where the document is not final, no rule is asked that may read
    a value that is yet to be written.
    """
    definitions = schema.get("definitions", {})
    filled = _with_defaults(definitions, schema, _with_name(document))
    return [
        Broken(_there(document, path), message)
        for node, path, value in _nodes(definitions, schema, filled, ())
        for rule in node.get(RULES, ())
        if is_final or not _may_read_unknown(rule["rule"], value)
        for path, message in _judged(rule, path, value)
    ]


def _judged(rule: Mapping[str, str], path: Path, value: Any) -> Iterator[tuple[Path, str]]:
    """The place and the message of a rule, where it is broken."""
    if _is_kept(rule["rule"], value):
        return
    below = tuple(name or quoted for name, quoted in _FIELD.findall(rule.get("fieldPath", "")))
    said = _compiled(rule["messageExpression"]).eval(data={"self": value}) if "messageExpression" in rule else None
    message = said.value() if said is not None and said.type().name() == "STRING" else rule.get("message")
    yield (*path, *below), message or f"failed rule: {rule['rule']}"


def _is_kept(rule: str, value: Any) -> bool:
    """Whether a rule holds. One that reads a field which is not there does not, as in the API server.

    What else may go wrong is for this library alone to explain, such as a number too large for CEL: it says nothing.
    """
    result = _compiled(rule).eval(data={"self": value})
    return result.value() is not False and _NO_FIELD not in str(result)


_NO_FIELD = "Key not found in map"


@cache
def _environment() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(variables={"self": cel.Type.DYN})


@cache
def _compiled(expression: str) -> Any:
    """An expression, ready to be evaluated. RuntimeError where CEL does not take it."""
    return _environment().compile(expression)


def _nodes(definitions: Json, node: Json, value: Any, path: Path) -> Iterator[tuple[Json, Path, Any]]:
    """Every node of a schema that a value reaches, with the place and the value that it describes there."""
    node = _resolved(definitions, node)
    yield node, path, value
    for step, below in _children(node, value):
        yield from _nodes(definitions, below, value[step], (*path, step))


def _children(node: Json, value: Any) -> Iterator[tuple[str | int, Json]]:
    """The schema of every field and item of a value that a node describes."""
    if isinstance(value, list) and "items" in node:
        yield from ((index, node["items"]) for index in range(len(value)))
    elif isinstance(value, dict):
        properties, others = node.get("properties", {}), node.get("additionalProperties")
        for name in value:
            below = properties.get(name, others)
            if isinstance(below, dict):
                yield name, below


def _resolved(definitions: Json, node: Json) -> Json:
    reference = node.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else node


def _with_defaults(definitions: Json, node: Json, value: Any) -> Any:
    """A copy of the value in which fields that are missing have their defaults."""
    node = _resolved(definitions, node)
    if isinstance(value, dict):
        known = ((name, _resolved(definitions, below)) for name, below in node.get("properties", {}).items())
        value = {name: below["default"] for name, below in known if "default" in below} | value
    below = {step: _with_defaults(definitions, child, value[step]) for step, child in _children(node, value)}
    if isinstance(value, list):
        return [below.get(index, item) for index, item in enumerate(value)]
    return {**value, **below} if isinstance(value, dict) else value


def _with_name(document: Json) -> Json:
    """The document with the name that the API server makes of its generateName."""
    metadata = document.get("metadata", {})
    start = metadata.get("generateName")
    if metadata.get("name") or not start:
        return document
    return {**document, "metadata": {**metadata, "name": start[:_KEPT_OF_GENERATE_NAME] + _ADDED_TO_GENERATE_NAME}}


def _may_read_unknown(rule: str, value: Any) -> bool:
    """Whether a value that is yet to be filled in stands in fields that the rule names, one within the other."""
    if isinstance(value, dict):
        named = (below for name, below in value.items() if re.search(rf"\b{re.escape(name)}\b", rule))
        return any(_may_read_unknown(rule, below) for below in named)
    if isinstance(value, list):
        return any(_may_read_unknown(rule, item) for item in value)
    return is_filled_in(value)


def _there(document: Any, path: Path) -> Path:
    """The part of a path that the document has."""
    for length, step in enumerate(path):
        if not isinstance(document, dict | list) or (isinstance(document, dict) and step not in document):
            return path[:length]
        document = document[step]  # type: ignore[index]
    return path
