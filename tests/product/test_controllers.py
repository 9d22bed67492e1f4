"""What goes together runs on its real controllers, and its pods are as predicted: a few, and all pairs at night."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.bases.matrix import list_jobs
from tests.by_day import seed, takes_everything
from tests.controlplane.comparison import differences
from tests.controlplane.harness import Ground, ground_for, unit_of
from tests.product.combinations import Combination, cover, names, repository, write
from trainyard.docs.matrix import clusters
from trainyard.objects.unit import Unit

pytestmark = pytest.mark.controlplane
A_FEW = 3
NOT_BUILT = "queue/volcano"
"""Its scheduler is not among the programs that are built here, so its pods would wait for ever."""


def running() -> list[Combination]:
    """Pairs on one cluster that the commit draws, or all pairs, cluster by cluster."""
    pairs = [each for each in cover(2, seed()) if each.queue != NOT_BUILT]
    if takes_everything():
        return sorted(pairs, key=lambda each: each.cluster)
    rng = random.Random(seed())
    cluster = rng.choice(list(clusters()))
    return rng.sample([each for each in pairs if each.cluster == cluster], A_FEW)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> dict[Combination, Unit]:
    """The jobs as they render."""
    root = tmp_path_factory.mktemp("product")
    repository(root)
    folders = {each: write(root, each, name) for each, name in zip(running(), names(running()), strict=True)}
    list_jobs(root)
    return {each: unit_of(folder, root) for each, folder in folders.items()}


@pytest.fixture(scope="module")
def ground_of(units: dict[Combination, Unit]) -> Iterator[Callable[[Combination], Ground]]:
    """The control plane for a job: the last one, unless that is another cluster's."""
    grounds: dict[str, Ground] = {}
    with ExitStack() as ends:

        def found(combination: Combination) -> Ground:
            if combination.cluster not in grounds:
                ends.close()
                grounds.clear()
                grounds[combination.cluster] = ends.enter_context(ground_for(units[combination]))
            return grounds[combination.cluster]

        yield found


@pytest.mark.parametrize("combination", running(), ids=str)
def test_the_pods_are_those_that_were_predicted(
    units: dict[Combination, Unit], ground_of: Callable[[Combination], Ground], combination: Combination
) -> None:
    with ground_of(combination).job(units[combination]) as run:
        found = differences(run.workload, run.pods, run.ground.client)

    assert not found, "\n".join([f"TRAINYARD_SEED={seed()}", *found])
