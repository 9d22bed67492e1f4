"""Which of a test's parameters a pull request waits for; the others are long proofs."""

import os
import random
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
SEED = "TRAINYARD_SEED"
COVER = "TRAINYARD_COVER"
"""How many choices at a time the product tests cover; ALL at night."""
ALL = "all"


def seed() -> str:
    """What a draw depends on: TRAINYARD_SEED, or the commit."""
    if given := os.environ.get(SEED):
        return given
    home = Path(__file__).resolve().parents[1]
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:12] or "no commit"


def takes_everything() -> bool:
    """True at night: nothing is drawn."""
    return os.environ.get(COVER) == ALL


def sample(every: Sequence[T], count: int) -> list[T]:
    """A few that the commit draws."""
    return random.Random(seed()).sample(every, min(count, len(every)))


def marks(value: Any, chosen: Collection[Any]) -> list[pytest.MarkDecorator]:
    """Those of one parameter. At night all parameters are long proofs, so that the draw leaves none out."""
    return [] if value in chosen and not takes_everything() else [pytest.mark.long]


def by_day(every: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters of a test: those that are not chosen run with tools/test --nightly alone."""
    values = list(every)
    assert all(each in values for each in chosen), f"not all of {chosen} are among {values}"
    return [pytest.param(each, marks=marks(each, chosen)) for each in values]
