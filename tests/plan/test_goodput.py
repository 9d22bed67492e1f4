"""Checkpoints and failures, by the worked examples and by trying other intervals."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.support import a_run
from trainyard.plan.goodput import DAY, HOUR, Reliability, daly, goodput


@pytest.mark.parametrize(
    ("nodes", "rate", "pause", "mtbf_hours", "minutes"),
    [(2, 6.5, 30, 1846, 332), (16, 6.5, 60, 230.8, 166), (128, 6.5, 60, 28.8, 59), (2048, 3.79, 10, 3.09, 7.9)],
)
def test_worked_examples(nodes: int, rate: float, pause: float, mtbf_hours: float, minutes: float) -> None:
    mtbf = 1000 * DAY / (nodes * rate)

    assert mtbf / HOUR == pytest.approx(mtbf_hours, rel=0.01)
    assert math.sqrt(2 * pause * mtbf) / 60 == pytest.approx(minutes, rel=0.01)
    assert daly(pause, mtbf) == pytest.approx(math.sqrt(2 * pause * mtbf), rel=0.05)


@given(pause=st.floats(0.1, 600), mtbf=st.floats(3600, 1e7), factor=st.floats(0.2, 5))
def test_no_other_interval_loses_much_less_than_dalys(pause: float, mtbf: float, factor: float) -> None:
    def lost(every: float) -> float:
        """Part of the time lost with exponential failures, exactly (Daly 2006, equation 20), without restarts."""
        return math.expm1((every + pause) / mtbf) * mtbf / every

    best = daly(pause, mtbf)
    if pause < mtbf / 10:
        assert lost(best) <= lost(best * factor) * 1.01


def test_what_a_run_loses() -> None:
    run = a_run("llama-3-8b", gpus=1024)
    there = Reliability(6.5, 600, 100e9)

    found = goodput(run, there, 30 * DAY, HOUR)

    assert found.bytes == 12 * run.shape.parameters
    assert found.mtbf / HOUR == pytest.approx(28.85, rel=0.01)
    assert found.failures == pytest.approx(30 * 24 / 28.85, rel=0.01)
    assert found.lost == pytest.approx(
        found.failures * (1800 + 600 + found.write_seconds) + 720 * found.pause, rel=0.01
    )
    assert found.lost_at_best < found.lost


@given(nodes=st.integers(1, 4096), rate=st.floats(0.5, 30), write=st.floats(1e8, 1e12))
def test_the_next_save_waits_for_the_last(nodes: int, rate: float, write: float) -> None:
    found = goodput(a_run(gpus=8 * nodes), Reliability(rate, 600, write), 10 * DAY, HOUR)

    assert found.best_interval >= 2 * found.write_seconds


def test_twice_the_failures_lose_more() -> None:
    there = Reliability(6.5, 600, 100e9)
    often = replace(there, failures_per_1000_node_days=13)

    assert goodput(a_run(), often, DAY, HOUR).lost > goodput(a_run(), there, DAY, HOUR).lost
