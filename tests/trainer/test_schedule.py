"""The arithmetic of batch, learning rate and cadence."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import cadence, schedule
from trainer.config import Config
from trainer.launch import Ranks
from trainer.schedule import Schedule

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("decay", ["cosine", "linear", "none"])
def test_rate_rises_to_its_peak_and_falls_to_its_floor(decay: str) -> None:
    plan = Schedule(peak=1.0, final=0.1, warmup=100, total=1000, decay=decay)

    rates = [plan.rate(position, 10) for position in range(0, 1000, 10)]

    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == 1.0
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert plan.rate(1000, 10) == pytest.approx(1.0 if decay == "none" else 0.1)


def test_halfway_is_halfway() -> None:
    for decay in ("cosine", "linear"):
        assert Schedule(1.0, 0.0, 0, 1000, decay).rate(500, 10) == pytest.approx(0.5)


@pytest.mark.claim("elastic-keeps-the-batch")
@given(world=st.integers(1, 64), batch=st.integers(1, 512), micro=st.integers(1, 64))
def test_elastic_share_keeps_the_global_batch(world: int, batch: int, micro: int) -> None:
    config = Config(global_batch=batch, micro_batch=micro, min_nodes=1, nodes=64)
    if batch % world:
        assert world not in schedule.allowed_sizes(config, 1)
        return
    share = schedule.share(config, Ranks(0, world, 0, 1, "torchrun"))

    assert share.global_batch == batch
    assert share.micro <= micro
    assert all(batch // world % size for size in range(share.micro + 1, min(micro, batch // world) + 1))


def test_daly_improves_on_young() -> None:
    """Waste at Daly's interval, by his full model of run time, is at most that at Young's."""

    def waste(interval: float, cost: float, mtbf: float) -> float:
        return mtbf * (math.exp((interval + cost) / mtbf) - 1) / interval

    for cost, mtbf in ((30, 3600), (60, 24 * 3600), (300, 3600), (1, 600)):
        young = math.sqrt(2 * cost * mtbf)
        assert waste(cadence.daly_seconds(cost, mtbf), cost, mtbf) <= waste(young, cost, mtbf)
    assert cadence.daly_seconds(30, 1846 * 3600) / 60 == pytest.approx(332, rel=0.01)
    assert cadence.daly_seconds(100, 10) == 10
