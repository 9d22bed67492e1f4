"""Reading plain data whose shape nobody has checked: a part of the wrong type counts as absent."""

from collections.abc import Iterator, Mapping
from typing import Any


def mapping(value: Any) -> Mapping[Any, Any]:
    """The value where it is a map, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def entries(value: Any) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    """The maps in a list, each with its index."""
    for index, item in enumerate(sequence(value)):
        if isinstance(item, dict):
            yield index, item


def text(value: Any) -> str:
    """The value where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """The value where it is a whole number of zero or more, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def digits(value: Any) -> int | None:
    """The number that a text of digits is; None for another value, and for more digits than any count has."""
    known = isinstance(value, str) and len(value) <= _LONGEST and value.isascii() and value.isdigit()
    return int(value) if known else None


_LONGEST = 18
"""Python refuses to read thousands of digits, and takes long over hundreds."""


def strings(value: Any) -> dict[str, str]:
    """The entries of a map whose key and value are both strings."""
    return {key: item for key, item in mapping(value).items() if isinstance(key, str) and isinstance(item, str)}
