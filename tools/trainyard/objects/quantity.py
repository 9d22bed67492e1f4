"""Kubernetes quantities (`500m`, `64Gi`, `1e3`) as exact numbers."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64}))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)\Z"
)


def quantity(value: Any) -> Fraction | None:
    """A quantity in its base unit (cores, bytes, devices), as written in YAML: a string or a plain number.

    None where the value is not a quantity. `1E` is 10^18, `1E3` and `1e3` are 1000, as in the API server.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        value = repr(value)
    if not isinstance(value, str) or _FORM.match(value) is None:
        return None
    return _parsed(value)


def shown(amount: Fraction | int) -> str:
    """An amount in its base unit as people write it: bytes in Gi or Mi where these are whole, else a plain number."""
    value = Fraction(amount)
    for suffix in ("Gi", "Mi"):
        if value >= _SUFFIXES["Gi"] and value % _SUFFIXES[suffix] == 0:
            return f"{value // _SUFFIXES[suffix]}{suffix}"
    return str(int(value)) if value.denominator == 1 else str(float(value))


@lru_cache(maxsize=4096)
def _parsed(value: str) -> Fraction:
    match = _FORM.match(value)
    assert match is not None
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        return number * Fraction(10) ** int(match["exponent"])
    return number * _SUFFIXES[match["suffix"] or ""]
