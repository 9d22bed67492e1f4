"""Parts of an object, read where they stand: a part of the wrong type counts as absent, since schemas report it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.rules.common.places import value_at
from trainyard.workload.plain import entries, mapping, sequence, strings, text


def part(spot: Spot) -> Mapping[Any, Any]:
    """The map at a field, empty where there is none."""
    return mapping(value_at(spot))


def items(spot: Spot) -> Iterator[tuple[Spot, Mapping[Any, Any]]]:
    """The maps in the list at a field, each with its own place."""
    for index, item in entries(value_at(spot)):
        yield spot.below(index), item


def words(spot: Spot) -> Iterator[tuple[Spot, str]]:
    """The texts in the list at a field, each with its own place."""
    for index, item in enumerate(sequence(value_at(spot))):
        if isinstance(item, str):
            yield spot.below(index), item


def word(spot: Spot) -> str:
    """The text at a field, empty where there is none."""
    return text(value_at(spot))


def integer(spot: Spot) -> int | None:
    """The whole number at a field, of either sign."""
    value = value_at(spot)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def pairs(spot: Spot) -> dict[str, str]:
    """The labels or annotations at a field."""
    return strings(value_at(spot))


def either(names: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
