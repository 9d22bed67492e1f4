"""Quantities are exact, and mean what the API server reads."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.objects.quantity import quantity, shown

SUFFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("8", 8),
        (8, 8),
        (1.5, Fraction(3, 2)),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("64Gi", 64 * 2**30),
        ("1536Mi", 3 * 2**29),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("12e-1", Fraction(6, 5)),
        ("+3", 3),
        ("-1Gi", -(2**30)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_reads(written: object, value: Fraction) -> None:
    assert quantity(written) == value


@pytest.mark.parametrize(
    "written",
    ["", " 1", "1 ", "1GB", "1gi", "Gi", "1K", "0x10", "1_000", "\u0661", "1e", "e3", "inf", "1\n", True, None, [1]],
)
def test_is_no_quantity(written: object) -> None:
    assert quantity(written) is None


@given(st.integers(-(10**20), 10**20), st.sampled_from(sorted(SUFFIXES)))
def test_decimal_suffix_is_a_power_of_ten(number: int, suffix: str) -> None:
    assert quantity(f"{number}{suffix}") == number * Fraction(10) ** SUFFIXES[suffix]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=9))
def test_decimal_text_is_exact(number: object) -> None:
    assert quantity(f"{number:f}") == Fraction(str(number))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(8), "8"),
        (Fraction(1, 2), "0.5"),
        (15200 * 2**30, "15200Gi"),
        (2**30 + 2**20, "1025Mi"),
        (2**30 + 1, "1073741825"),
    ],
)
def test_is_shown_as_people_write_it(amount: Fraction | int, text: str) -> None:
    assert shown(amount) == text


@given(st.text(max_size=40))
def test_never_raises(text: str) -> None:
    quantity(text)
