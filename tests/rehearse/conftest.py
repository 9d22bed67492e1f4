"""Rehearsals of the tests that were chosen, a few at a time: what trains computes, and cases wait beside it."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.rehearse.rehearsing import Rehearsed, rehearse

TRAIN_AT_ONCE = 3
CASES_AT_ONCE = 2
CASES = "tests/rehearse/cases/"
Words = tuple[str, ...]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that rehearse by themselves come first: the rehearsals that others wait for are under way meanwhile."""
    items.sort(key=lambda item: "rehearsed" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session", autouse=True)
def ahead(request: pytest.FixtureRequest) -> Iterator[dict[Words, "Future[Rehearsed]"]]:
    """The rehearsals that the session's tests ask for, under way."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = dict.fromkeys(call.params["rehearsed"] for call in calls if call and "rehearsed" in call.params)
    with ThreadPoolExecutor(TRAIN_AT_ONCE) as train, ThreadPoolExecutor(CASES_AT_ONCE) as cases:
        yield {words: (cases if words[0].startswith(CASES) else train).submit(rehearse, *words) for words in wanted}
        for pool in (train, cases):
            pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def rehearsed(request: pytest.FixtureRequest, ahead: dict[Words, "Future[Rehearsed]"]) -> Rehearsed:
    """The rehearsal of the words that a test gives: `@pytest.mark.parametrize("rehearsed", [...], indirect=True)`."""
    return ahead[request.param].result()
