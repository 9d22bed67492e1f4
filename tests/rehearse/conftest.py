"""Rehearsals of the tests that were chosen, a few at a time: most of one is waiting."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.rehearse.rehearsing import Rehearsed, rehearse

AT_ONCE = 3
Words = tuple[str, ...]


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest) -> Iterator[dict[Words, "Future[Rehearsed]"]]:
    """The rehearsals that the session's tests ask for, under way."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = dict.fromkeys(call.params["rehearsed"] for call in calls if call and "rehearsed" in call.params)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = {words: pool.submit(rehearse, *words) for words in wanted}
        yield under_way
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def rehearsed(request: pytest.FixtureRequest, ahead: dict[Words, "Future[Rehearsed]"]) -> Rehearsed:
    """The rehearsal of the words that a test gives: `@pytest.mark.parametrize("rehearsed", [...], indirect=True)`."""
    return ahead[request.param].result()
