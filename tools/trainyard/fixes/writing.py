"""New values as YAML text, in the style of what stands around them."""

import json
import re
from typing import Any

from trainyard.yaml.scalars import resolve

_PLAIN = re.compile(r"[A-Za-z0-9_./$+^=-][A-Za-z0-9_./$+^=@%()\[\]{}:,; -]*\Z")
_UNQUOTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Line breaks of YAML that are none of JSON, and what YAML holds only as an escape."""
_FLOW_SIGNS = frozenset(",[]{}")
_OLD_WORDS = frozenset(("y", "n", "yes", "no", "on", "off"))
"""What YAML 1.1 reads as true or false."""


def scalar(value: Any, style: str = "", *, in_flow: bool = False) -> str:
    """A string, number, truth value or None. `style` is the quote that strings are put in, empty for none."""
    if not isinstance(value, str):
        return json.dumps(value)
    if style == '"' or any(not sign.isprintable() for sign in value):
        return _quoted(value)
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    return value if _may_be_plain(value, in_flow) else _quoted(value)


def flow(value: Any, style: str = "") -> str:
    """Any value on one line."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{scalar(key, style, in_flow=True)}: {flow(item, style)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(flow(item, style) for item in value) + "]"
    return scalar(value, style, in_flow=True)


def entry(key: str, value: Any) -> list[str]:
    """A key with its value, as lines of block style. Lists stand under the first letter of their key."""
    if isinstance(value, dict) and value:
        return [f"{scalar(key)}:", *("  " + line for line in block(value))]
    if isinstance(value, list) and value:
        return [f"{scalar(key)}:", *block(value)]
    return [f"{scalar(key)}: {flow(value) if isinstance(value, dict | list) else scalar(value)}"]


def block(value: Any) -> list[str]:
    """Any value, as lines of block style."""
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in entry(key, item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in listed(item)]
    return [flow(value)]


def listed(item: Any) -> list[str]:
    """An item of a list, as lines of block style."""
    first, *rest = block(item)
    return [f"- {first}", *("  " + line for line in rest)]


def _quoted(text: str) -> str:
    """Double-quoted, as JSON and YAML both read it: what YAML folds or forbids is escaped, which JSON would not."""
    return _UNQUOTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _may_be_plain(text: str, in_flow: bool) -> bool:
    if not _PLAIN.match(text) or text.lower() in _OLD_WORDS or resolve(text, None, plain=True)[0] != "str":
        return False
    if text in ("-", "---", "...", "=") or text.startswith("- ") or text.endswith((":", " ")) or ": " in text:
        return False
    return not (in_flow and _FLOW_SIGNS.intersection(text))
