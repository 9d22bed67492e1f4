"""Rehearsals of the tests that were chosen, two of a module at a time."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.rehearse.rehearsing import Rehearsed, rehearse

AT_ONCE = 2
Words = tuple[str, ...]


@pytest.fixture(scope="module")
def ahead(request: pytest.FixtureRequest) -> Iterator[dict[Words, "Future[Rehearsed]"]]:
    """The rehearsals that the tests of a module ask for, under way."""
    items = (item for item in request.session.items if getattr(item, "module", None) is request.module)
    calls = [getattr(item, "callspec", None) for item in items]
    wanted = dict.fromkeys(call.params["rehearsed"] for call in calls if call and "rehearsed" in call.params)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {words: pool.submit(rehearse, *words) for words in wanted}
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def rehearsed(request: pytest.FixtureRequest, ahead: dict[Words, "Future[Rehearsed]"]) -> Rehearsed:
    """The rehearsal of the words that a test gives: `@pytest.mark.parametrize("rehearsed", [...], indirect=True)`."""
    return ahead[request.param].result()
