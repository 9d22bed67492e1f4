"""What a plain YAML scalar means to the Go library that kustomize and kubectl read with (go yaml.v3)."""

import math
import re
from typing import Any

_WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("true", "True", "TRUE"), ("bool", True)),
    **dict.fromkeys(("false", "False", "FALSE"), ("bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z", re.ASCII)
_PREFIXED = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+))\Z", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-", re.ASCII)
_TAG = "tag:yaml.org,2002:"
_LEAST = -(2**63)
_MOST = 2**64 - 1


def resolve(text: str, tag: str | None, *, plain: bool) -> tuple[str, Any]:
    """Kind (str, int, float, bool, null) and value of a scalar. `tag` is the one written before it, or None."""
    if tag is not None and tag != "!":
        return _tagged(text, tag.removeprefix(_TAG))
    if not plain or tag == "!":
        return "str", text
    return _plain(text)


def _tagged(text: str, tag: str) -> tuple[str, Any]:
    if tag not in ("int", "float", "bool", "null"):
        return "str", text
    kind, value = _plain(text)
    if tag == "float" and kind == "int":
        return "float", float(value)
    return (kind, value) if kind == tag else ("str", text)


def _plain(text: str) -> tuple[str, Any]:
    known = _WORDS.get(text)
    if known is not None:
        return known
    first = text[0]
    if first == ".":
        return ("float", float(text)) if _FLOAT.match(text) else ("str", text)
    if first not in "+-0123456789" or (_DATE.match(text) and not text.isdigit()):
        return "str", text
    return _number(text, text.replace("_", ""))


def _number(text: str, digits: str) -> tuple[str, Any]:
    # Python refuses to read very long integers, and takes long over those it reads: they are floats to Go anyway.
    if len(digits) <= 80:
        value = _integer(digits)
        if value is not None and _LEAST <= value <= _MOST:
            return "int", value
    if not _FLOAT.match(digits):
        return "str", text
    number = float(digits)
    return ("str", text) if math.isinf(number) else ("float", number)


def _integer(digits: str) -> int | None:
    if _DECIMAL.match(digits):
        return int(digits)
    found = _PREFIXED.match(digits)
    if found is None:
        return None
    sign, hexadecimal, binary, octal = found.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8)
    return -value if sign == "-" else value
