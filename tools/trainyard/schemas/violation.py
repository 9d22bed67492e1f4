"""What a document does against its JSON Schema, in its author's words."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from math import isfinite
from pathlib import Path as File
from types import UnionType
from typing import Any

from trainyard.errors import Fault
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, put, rename
from trainyard.yaml.fieldpath import Path, format_path

_BYTES = "(Ki|Mi|Gi|"
_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) *(?P<unit>[mgtpMGTP])i?[bB]\Z")

_PATTERN_WORDS = {
    "[KMGTPE]i": "a quantity such as 500m, 8 or 16Gi",
    _BYTES: "a quantity such as 500Gi",
    "^([0-9]{1,3}(\\.[0-9]{1,3}){3}/": "a range of addresses such as 10.60.0.0/16",
    "([0-9]+)ms)?)$": "a duration such as 30s or 1h30m",
    "(ms|s|m|h)": "a duration such as 30s or 1h30m",
    "^[a-z]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and '-', a letter first",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and '-', neither end a '-'",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]": "lower-case letters, digits, '-' and '.'",
    "^[a-z0-9][a-z0-9._-]*$": "lower-case letters, digits, '.', '_' and '-'",
    "^[A-Za-z_][A-Za-z0-9_]*$": "letters, digits and '_', no digit first",
    "^[^\\s]+$": "text without spaces",
    "^[a-z0-9.:-]+/([^ ]*/": "what images begin with, up to a slash (registry.example.com/), or one with its digest",
    "\\.json$": "a file in the repository whose name ends in .json",
    "^/data(/": "/data/<folder>, since the claim is mounted on /data",
}
"""What patterns mean, by a part that no other meaning shares."""

_SLIP = 0.85
"""How like a word must be, from 0 to 1, to be certainly a slip of the pen for another."""

_LISTED = 12
"""How many allowed values or fields are listed before a list stops helping."""

_QUOTED = 60
"""Characters of a found value that are shown."""

_TYPE_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "nothing",
    "number": "a number",
    "object": "a map",
    "string": "a string",
}


@cache
def validator_of(schema_file: File) -> tuple[Any, dict[str, Any]]:
    """The validator of a schema, and the schema itself, read once. Fault where it cannot be used."""
    import jsonschema_rs

    try:
        schema = json.loads(schema_file.read_bytes())
        return jsonschema_rs.validator_for(schema), schema
    except (OSError, ValueError) as error:
        raise Fault(f"{schema_file} is not a usable JSON Schema: {error}") from error


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with one field."""

    path: Path
    """The wrong field. For a missing one it is the field that lacks it."""
    message: str
    """What was expected and what was found, without the field's name where the path tells it."""
    help: str = ""
    at_key: bool = False
    """True where the field itself may not be there, whatever its value."""
    needed: str = ""
    """The field that is missing at `path`, or that a misspelt one at `path` was meant to be."""
    instead: str | int | float | bool | None = None
    """The value that was certainly meant, where one was."""
    sure: bool = True
    """False where what was meant is only like what is written."""


def violations(validator: Any, schema: dict[str, Any], document: Any) -> list[Violation]:
    """Everything that `schema` refuses in `document`, by path. `validator` is jsonschema_rs's, made from `schema`."""
    found = {Violation(path, f"expected a number, found {value}") for path, value in not_finite(document)}
    no_numbers = {violation.path for violation in found}
    for error in validator.iter_errors(document):
        if tuple(error.instance_path) not in no_numbers:
            found.update(_explain(error, schema))
    misspelt = {(violation.path[:-1], violation.needed) for violation in found if violation.at_key and violation.needed}
    found = {v for v in found if v.at_key or (v.path, v.needed) not in misspelt}
    return sorted(found, key=lambda v: ([(isinstance(step, str), step) for step in v.path], v.message))


def sentence(violation: Violation, field: str) -> str:
    """The violation with the name of its field before it, where the message does not name one."""
    return violation.message if violation.at_key or not field else f"{field}: {violation.message}"


def remedy(violation: Violation, spot: Spot) -> Remedy | None:
    """What puts a violation at a field right, where that is known: its name, its value, or its quotes."""
    if violation.at_key and violation.needed:
        found = rename(spot, violation.needed).saying(f"rename it to {violation.needed}")
    elif violation.instead is not None:
        found = put(spot, violation.instead).saying(f"write {json.dumps(violation.instead)}")
    else:
        return None
    return found if violation.sure else found.unsafe()


def field_name(document: Any, path: Path) -> str:
    """The end of a path that tells a reader which field it is: `parallelism`, `env[NCCL_DEBUG].value`, `args[0]`."""
    start = _last_name(path, len(path))
    if start > 1 and isinstance(path[start - 1], int):
        start = _last_name(path, start)
    below = document
    for step in path[:start]:
        below = below[step]
    return format_path(below, path[start:])


def not_finite(tree: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    """Every NaN and infinity, which YAML can write and JSON cannot."""
    if isinstance(tree, float) and not isfinite(tree):
        yield path, tree
    elif isinstance(tree, dict | list):
        for step, below in tree.items() if isinstance(tree, dict) else enumerate(tree):
            if isinstance(below, float | dict | list):
                yield from not_finite(below, (*path, step))


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant, or None."""
    lower = {name.lower(): name for name in reversed(known)}
    found = get_close_matches(word.lower(), list(lower), n=1, cutoff=0.7)
    return lower[found[0]] if found else None


def describe(value: Any) -> str:
    """A found value with its type: the string "4", the integer 4, a list."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f"the integer {value}"
    if isinstance(value, float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the string {_quote(value)}"
    return "a list" if isinstance(value, list) else "a map"


def _explain(error: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    path: Path = tuple(error.instance_path)
    keyword: str = error.kind.name
    own = _schema_of(schema, error.schema_path)
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        known = list(own.get("properties", {}))
        yield from (_unknown_field((*path, name), name, known) for name in error.kind.unexpected)
    elif keyword in ("anyOf", "oneOf"):
        yield from _explain_choice(error, schema, path)
    elif keyword == "propertyNames":
        cause = error.kind.error
        words = _words(cause, _schema_of(schema, cause.schema_path), cause.instance)
        yield Violation((*path, cause.instance), f"field name {_quote(cause.instance)}: {words}", at_key=True)
    elif keyword == "required":
        name = error.kind.property
        yield Violation(path, f"missing required field {_quote(name)}", _help(own), needed=name)
    else:
        advice, instead, sure = _quotes_help(own, error.instance) if keyword == "type" else ("", None, True)
        if keyword == "enum" and isinstance(error.instance, str):
            instead = nearest(error.instance, [o for o in own.get("enum", []) if isinstance(o, str)])
            sure = instead is not None and _is_slip(error.instance, instead)
        if keyword == "pattern":
            instead = _size_meant(own["pattern"], error.instance)
        yield Violation(path, _words(error, own, error.instance), advice or _help(own), instead=instead, sure=sure)


def _explain_choice(error: Any, schema: dict[str, Any], path: Path) -> Iterator[Violation]:
    """Alternatives: their types where all differ by type, else what the nearest one lacks."""
    branches: list[list[Any]] = [branch for branch in getattr(error.kind, "context", []) if branch]
    if not branches:
        yield Violation(path, "fits several forms that exclude one another")
        return
    by_type = [branch for branch in branches if _only_type(branch, path)]
    if len(by_type) == len(branches):
        types = [name for branch in by_type for name in branch[0].kind.types]
        yield Violation(path, f"expected {_type_words(types)}, found {describe(error.instance)}")
        return
    best = min((branch for branch in branches if branch not in by_type), key=len)
    for cause in best:
        yield from _explain(cause, schema)


def _only_type(branch: list[Any], path: Path) -> bool:
    return len(branch) == 1 and branch[0].kind.name == "type" and tuple(branch[0].instance_path) == path


def _words(error: Any, own: dict[str, Any], value: Any) -> str:
    keyword: str = error.kind.name
    found = describe(value)
    if keyword == "type":
        return f"expected {_type_words(error.kind.types)}, found {found}"
    if keyword in ("enum", "const"):
        return _choice_words(own.get("enum", [own.get("const")]), value)
    if keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return f"expected {_range_words(own)}, found {value}"
    if keyword == "multipleOf":
        return f"expected a multiple of {own['multipleOf']}, found {value}"
    if keyword == "pattern":
        regex = own["pattern"]
        meant = next((words for part, words in _PATTERN_WORDS.items() if part in regex), f"text that matches {regex}")
        size = _size_meant(regex, value)
        return f"expected {meant}, found {_quote(value)}" + (f": did you mean {size}?" if size else "")
    if keyword in ("minLength", "maxLength"):
        return f"expected {_count_words(own, 'Length', 'character')}, found {len(value)}"
    if keyword in ("minItems", "maxItems"):
        return f"expected {_count_words(own, 'Items', 'item')}, found {len(value)}"
    if keyword in ("minProperties", "maxProperties"):
        return f"expected {_count_words(own, 'Properties', 'field')}, found {len(value)}"
    if keyword == "uniqueItems":
        return "expected items that differ, found one twice"
    if keyword == "falseSchema":
        return "may not be set here"
    return str(error.message)


def _size_meant(regex: str, value: str) -> str | None:
    """The quantity of bytes that 500GB or 500 gb was certainly meant to be, where a pattern wants one."""
    size = _SIZE.match(value) if _BYTES in regex else None
    return f"{size['number']}{size['unit'].upper()}i" if size else None


def _unknown_field(path: Path, name: str, known: Sequence[str]) -> Violation:
    message = f"unknown field {_quote(name)}"
    meant = nearest(name, known)
    if meant is not None:
        words = f"{message}: did you mean {_quote(meant)}?"
        return Violation(path, words, at_key=True, needed=meant, sure=_is_slip(name, meant))
    advice = f"known here: {', '.join(sorted(known))}" if 0 < len(known) <= _LISTED else ""
    return Violation(path, message, advice, at_key=True)


def _choice_words(options: Sequence[Any], value: Any) -> str:
    texts = [option if isinstance(option, str) and option else json.dumps(option) for option in options]
    if len(options) == 1:
        return f"expected {json.dumps(options[0])}, found {describe(value)}"
    some = ", ".join(texts[:_LISTED]) + (" ..." if len(texts) > _LISTED else "")
    words = f"expected one of {some}, found {describe(value)}"
    meant = nearest(value, [o for o in options if isinstance(o, str)]) if isinstance(value, str) else None
    return words if meant is None else f"{words}: did you mean {_quote(meant)}?"


def _range_words(own: dict[str, Any]) -> str:
    low, above = own.get("minimum"), own.get("exclusiveMinimum")
    high, below = own.get("maximum"), own.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    bounds = (("more than", above), ("at least", low), ("less than", below), ("at most", high))
    return " and ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)


def _count_words(own: dict[str, Any], what: str, unit: str) -> str:
    low, high = own.get(f"min{what}"), own.get(f"max{what}")
    if low is not None and high is not None and low != high:
        return f"{low} to {high} {unit}s"
    bound = low if low is not None else high
    words = "" if low == high else "at least " if low is not None else "at most "
    return f"{words}{bound} {unit}{'' if bound == 1 else 's'}"


def _type_words(types: Sequence[str]) -> str:
    words = [_TYPE_WORDS[name] for name in dict.fromkeys(types) if name != "null"]
    return " or ".join(words) or "nothing"


def _is_slip(written: str, meant: str) -> bool:
    """Whether one is so near to the other that it can have meant nothing else."""
    one, other = (text.lower().replace("_", "").replace("-", "") for text in (written, meant))
    return SequenceMatcher(None, one, other).ratio() >= _SLIP


def _quotes_help(own: dict[str, Any], value: Any) -> tuple[str, str | int | float | bool | None, bool]:
    """The mistake that YAML makes easy: a number in quotes, or a string without. Words, what was meant, certainty."""
    types = own.get("type", [])
    types = {types} if isinstance(types, str) else set(types)
    numbers = types & {"integer", "number"}
    if isinstance(value, bool | int | float):
        if "string" not in types or numbers:
            return "", None, True
        return f"put it in quotes: {json.dumps(json.dumps(value))}", json.dumps(value), not isinstance(value, float)
    if not isinstance(value, str) or "string" in types:
        return "", None, True
    try:
        meant = json.loads(value)
    except ValueError:
        return "", None, True
    fits = "boolean" in types if isinstance(meant, bool) else numbers and isinstance(meant, _numbers(types))
    return (f"remove the quotes: {value.strip()}", meant, True) if fits else ("", None, True)


def _numbers(types: set[str]) -> type | UnionType:
    return int | float if "number" in types else int


def _help(own: dict[str, Any]) -> str:
    """What the field means, for schemas that say so."""
    text = own.get("description", "")
    return text if isinstance(text, str) else ""


def _schema_of(schema: dict[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """The schema that holds the keyword at the end of `path`."""
    below: Any = schema
    for step in path[:-1]:
        below = below[step]
    return below if isinstance(below, dict) else {}


def _last_name(path: Path, end: int) -> int:
    """Index of the last name before `end`."""
    return max((n for n in range(end) if isinstance(path[n], str)), default=0)


def _quote(text: Any) -> str:
    text = str(text)
    return json.dumps(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...", ensure_ascii=False)
