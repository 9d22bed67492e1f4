"""Which of a test's parameters a pull request waits for; the others are long proofs."""

import os
import random
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
SEED = "TRAINYARD_SEED"
COVER = "TRAINYARD_COVER"
"""What tools/test --all and --nightly set: SOME or ALL. Whoever names tests gets those that they name."""
SOME, ALL = "some", "all"
SHARD = "TRAINYARD_SHARD"
"""What tools/test --all --shard sets: 2/4 for the second of four parts."""


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


SHARES = {"commands": 8, "report": 4, "drawn": 5, "slow_build": 2}
"""Of the tests with one of these marks, one in so many is drawn."""
SERVERS = ("controlplane", 5)
"""The same of whole files: tests of one file share an API server."""


def draw(items: Sequence[pytest.Item]) -> None:
    """Mark as long proofs those that a pull request does not wait for, in the runs where COVER says so.

    They take most of the time, and the commit draws those that run by day.
    """
    if COVER not in os.environ:
        return
    for mark, share in SHARES.items():
        _draw([item for item in items if item.get_closest_marker(mark)], share, lambda item: item.nodeid)
    mark, share = SERVERS
    _draw([item for item in items if item.get_closest_marker(mark)], share, lambda item: item.nodeid.split("::")[0])


def _draw(among: Sequence[pytest.Item], share: int, key: Callable[[pytest.Item], str]) -> None:
    keys = sorted({key(item) for item in among})
    drawn = set() if takes_everything() else set(sample(keys, -(-len(keys) // share)))
    for item in among:
        if key(item) not in drawn:
            item.add_marker(pytest.mark.long)


def of_this_shard(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests of one part. Files are dealt out by a checksum of their names, so that each is in one part."""
    number, _, count = os.environ.get(SHARD, "1/1").partition("/")
    here = int(number) % int(count)
    return [item for item in items if zlib.crc32(item.nodeid.split("::")[0].encode()) % int(count) == here]


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
