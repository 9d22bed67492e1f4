"""Jobs changed at random within their schemas: what a user might have written, right or wrong."""

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.controlplane.harness import HOME
from trainyard.schemas.schema import schema_of
from trainyard.schemas.violation import validator_of

Json = dict[str, Any]
Path = tuple[str | int, ...]

_TEXTS = ("a", "train", "10s", "node-0", "1Gi", "Always", "worker", "50%")
_NUMBERS = (0, 1, 2, 3, 4, 5)
_WORDS = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b|\b[A-Z]{2,}\b")
"""Words that a description may list as values, such as OnFailure."""
_LEFT_ALONE = {"apiVersion", "kind", "status", "image"}
_ELSEWHERE = {"activeDeadlineSeconds", "priorityClassName", "schedulerName", "serviceAccount", "serviceAccountName"}
"""Fields that name what a cluster holds beside the job, or end it by the clock."""
_OF_A_POD = 0.3
"""The share of changes below a pod template, whose fields are many and are judged by the API server's functions."""


def changed(data: Json, chance: random.Random) -> Json | None:
    """The object with one or two fields added, taken out or changed; None where its schema takes it no more."""
    file = schema_of(HOME / "schemas", data["apiVersion"], data["kind"])
    assert file is not None
    root = json.loads(file.read_text())
    made = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 2))):
        _change(made, root, chance)
    return made if made != data and validator_of(file)[0].is_valid(made) else None


def _change(made: Json, root: Json, chance: random.Random) -> None:
    every = list(_fields(made, root, root, ()))
    inside = chance.random() < _OF_A_POD
    path, schema = chance.choice([each for each in every if ("template" in each[0]) == inside] or every)
    holder: Any = made
    for step in path[:-1]:
        holder = holder[step]
    last, there = path[-1], path[-1] in holder
    if there and chance.random() < 1 / 3:
        del holder[last]
    elif there and isinstance(holder[last], list) and holder[last] and chance.random() < 2 / 3:
        if chance.random() < 1 / 2:
            holder[last].pop(chance.randrange(len(holder[last])))
        else:
            holder[last].append(copy.deepcopy(chance.choice(holder[last])))
    else:
        holder[last] = _value(schema, root, chance, 1)


def _fields(data: Any, schema: Json, root: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    """Each field that the object has or could have below `path`, with its schema."""
    schema = _resolved(schema, root)
    if isinstance(data, dict):
        known = schema.get("properties", {})
        values = schema.get("additionalProperties")
        for key in known.keys() - _LEFT_ALONE - _ELSEWHERE:
            if path or key == "spec":
                yield (*path, key), known[key]
        for key, value in data.items():
            below = known.get(key) or (values if isinstance(values, dict) else None)
            if below and key not in _LEFT_ALONE and (path or key == "spec"):
                yield from _fields(value, below, root, (*path, key))
    elif isinstance(data, list) and "items" in schema:
        for index, value in enumerate(data):
            yield from _fields(value, schema["items"], root, (*path, index))


def _value(schema: Json, root: Json, chance: random.Random, depth: int) -> Any:
    schema = _resolved(schema, root)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _value(chance.choice(schema[several]), root, chance, depth)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kinds = schema.get("type", "string")
    kind = next((each for each in kinds if each != "null"), "string") if isinstance(kinds, list) else kinds
    if kind == "boolean":
        return chance.random() < 1 / 2
    if kind in ("integer", "number"):
        return chance.choice(_NUMBERS)
    if kind == "array":
        return [_value(schema.get("items", {}), root, chance, depth + 1) for _ in range(chance.choice((1, 1, 2)))]
    if kind == "object":
        return _map(schema, root, chance, depth)
    listed = _WORDS.findall(schema.get("description", ""))
    return chance.choice(listed if listed and chance.random() < 2 / 3 else _TEXTS)


def _map(schema: Json, root: Json, chance: random.Random, depth: int) -> Json:
    known, values = schema.get("properties", {}), schema.get("additionalProperties")
    if not known:
        return {"a": _value(values, root, chance, depth + 1)} if isinstance(values, dict) else {}
    share = 0 if depth > 2 else min(1 / 3, 2 / len(known))
    return {
        key: _value(below, root, chance, depth + 1)
        for key, below in known.items()
        if key in schema.get("required", ()) or (key not in _ELSEWHERE and chance.random() < share)
    }


def _resolved(schema: Json, root: Json) -> Json:
    while "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema
