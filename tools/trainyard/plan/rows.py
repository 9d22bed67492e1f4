"""The fields of a row of published runs."""

import math
from collections.abc import Mapping
from typing import Any

LARGEST = 10**9
"""No count of a run is larger."""


class Refused(Exception):
    """A row does not say enough, or asks for what the model does not know."""


def integer(row: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A count of at least 1; `default`, which may be 0 for a count that is not stated, where the key is absent."""
    if key not in row and default is not None:
        return default
    value = row.get(key)
    if value is None:
        raise Refused(f"{key} is not stated")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise Refused(f"{key} is {value}, which is not a count")
    return value


def number(row: Mapping[str, Any], key: str) -> float:
    """A number above 0."""
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise Refused(f"{key} is {value}, which is not a number above 0")
    return float(value)


def mapping(value: Any) -> Mapping[Any, Any]:
    """A mapping, empty where there is none."""
    return value if isinstance(value, Mapping) else {}
