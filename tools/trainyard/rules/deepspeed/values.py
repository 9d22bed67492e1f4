"""Whether DeepSpeed takes a value, as its checked models read it."""

import math
from typing import Any

from trainyard.catalogues.deepspeed import Key

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


def refusal(key: Key, value: Any) -> str:
    """Why the value is refused, in words that follow the key's name; empty where it is taken."""
    if key.type == "boolean":
        return "" if _is_boolean(value, strict=key.strict) else f"must be true or false, not {_shown(value)}"
    if key.type in ("integer", "number"):
        return _refused_number(key, value)
    if key.type == "string":
        return _refused_text(key, value)
    if key.type == "list":
        return "" if isinstance(value, list) else f"must be a list, not {_shown(value)}"
    if key.type == "map":
        return "" if isinstance(value, dict | bool) else f"must be a map, not {_shown(value)}"
    return ""


def taken(key: Key) -> str:
    """What a key takes, in words."""
    if key.values:
        return f"one of {', '.join(key.values)}"
    word = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(
        key.type, f"a {key.type}"
    )
    if key.above is not None:
        return f"{word} above {key.above:g}"
    if key.min is not None and key.max is not None:
        return f"{word} from {key.min:g} to {key.max:g}"
    return word if key.min is None else f"{word} of {key.min:g} or more"


def meant(key: Key | None, value: Any) -> Any:
    """What a checked model makes of a value: `"true"` and 1 are a boolean's true, `"5"` an integer's 5."""
    if key is None or isinstance(value, list | dict):
        return value
    if key.type == "boolean" and _is_boolean(value, strict=key.strict):
        return str(value).lower() in _TRUE if isinstance(value, str) else bool(value)
    number = as_number(value) if key.type in ("integer", "number") else None
    if number is None or not math.isfinite(number):
        return value
    return int(number) if number == int(number) else number


def as_number(value: Any) -> float | None:
    """The number that a value is, as text or as a number; None where it is none."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _refused_number(key: Key, value: Any) -> str:
    number = as_number(value)
    whole = key.type == "integer"
    if number is None or (key.checked and isinstance(value, str)) or (key.strict and isinstance(value, bool)):
        return f"must be a {'whole number' if whole else 'number'}, not {_shown(value)}"
    if not math.isfinite(number):
        return f"must be finite, not {_shown(value)}"
    if whole and number != int(number):
        return f"must be a whole number, not {_shown(value)}"
    if key.above is not None and number <= key.above:
        return f"must be above {key.above:g}, not {_shown(value)}"
    if key.min is not None and number < key.min:
        return f"must be {key.min:g} or more, not {_shown(value)}"
    if key.max is not None and number > key.max:
        return f"must be {key.max:g} or less, not {_shown(value)}"
    return ""


def _refused_text(key: Key, value: Any) -> str:
    if not isinstance(value, str):
        return f"must be text, not {_shown(value)}"
    known = {each.lower() for each in key.values} if key.any_case else set(key.values)
    if known and (value.lower() if key.any_case else value) not in known:
        return f"must be one of {', '.join(key.values)}, not {_shown(value)}"
    return ""


def _is_boolean(value: Any, *, strict: bool) -> bool:
    if isinstance(value, bool):
        return True
    if strict:
        return False
    if isinstance(value, int | float):
        return value in (0, 1)
    return isinstance(value, str) and value.lower() in _TRUE | _FALSE


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
