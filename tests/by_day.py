"""Which of a test's parameters a pull request waits for; the others are long proofs."""

from collections.abc import Iterable
from typing import Any

import pytest


def by_day(every: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters of a test: those that are not chosen run with tools/test --nightly alone."""
    values = list(every)
    assert all(each in values for each in chosen), f"not all of {chosen} are among {values}"
    return [each if each in chosen else pytest.param(each, marks=pytest.mark.long) for each in values]
