"""What goes together meets, trains and saves in a rehearsal: one pair that the commit draws, every pair at night."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.bases.matrix import list_jobs
from tests.by_day import sample, seed, takes_everything
from tests.product.combinations import Combination, cover, names, repository, write
from tests.rehearse.rehearsing import Rehearsed, rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
AT_ONCE = 2
OPTIONS = ("--gpus-per-node", "1", "--once")


def rehearsed() -> tuple[Combination, ...]:
    """One of the pairs, or all of them where everything is taken."""
    pairs = cover(2, seed())
    return pairs if takes_everything() else tuple(sample(pairs, 1))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[Combination, "Future[Rehearsed]"]]:
    """The rehearsals, under way."""
    root = tmp_path_factory.mktemp("product")
    repository(root)
    folders = {each: write(root, each, name) for each, name in zip(rehearsed(), names(rehearsed()), strict=True)}
    list_jobs(root)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {each: pool.submit(rehearse, folder, *OPTIONS, cwd=root) for each, folder in folders.items()}
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("combination", rehearsed(), ids=str)
def test_what_goes_together_meets_trains_and_saves(
    runs: Mapping[Combination, "Future[Rehearsed]"], combination: Combination
) -> None:
    found = runs[combination].result()

    assert found.code == 0, f"TRAINYARD_SEED={seed()}\n{said(found)}"
    (run,) = found.runs
    assert run["world_size"] == 2
    assert sorted(map(int, run["losses"])) == [1, 2, 3, 4, 5, 6]
