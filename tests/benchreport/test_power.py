"""What docs/benchmarks.md promises of power and false alarms, over histories drawn from measured noise."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchreport.conftest import HOME

pytestmark = pytest.mark.report


@pytest.mark.long
def test_losses_are_found_and_healthy_runs_left_alone() -> None:
    command: list[str | Path] = [HOME / "tools/bench-report", "power", "--trials", "100", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    outcomes = [line["outcome"] for line in json.loads(done.stdout) if line["outcome"]]
    assert len(outcomes) >= 20
    trials = 100 * len(outcomes)
    assert sum(outcome["found"] for outcome in outcomes) * 100 >= 0.95 * trials
    assert sum(outcome["false"] for outcome in outcomes) * 100 <= 0.01 * trials
    # a row alone may be off by what 100 trials leave to chance
    assert min(outcome["found"] for outcome in outcomes) >= 0.9
    assert max(outcome["false"] for outcome in outcomes) <= 0.05


def test_the_statistic_is_scipys(python: Callable[[str], str]) -> None:
    assert (
        python(
            """
import numpy as np
from scipy import stats
from trainyard.benchreport.shift import compare, others
random = np.random.default_rng(5)
for before, after in ((3, 2), (10, 7), (24, 11)):
    there, here = random.standard_t(3, (before, 2)), random.standard_t(3, (after, 2))
    expected = stats.ttest_ind(here, there, trim=0.3, alternative="less").pvalue
    assert np.allclose(compare(there, here).p, expected)
for nodes in (2, 3, 4, 9):
    values = random.normal(size=(4, nodes))
    expected = [[np.median(np.delete(row, at)) for at in range(nodes)] for row in values]
    assert np.allclose(others(values), expected)
print("alike")
"""
        )
        == "alike\n"
    )


def test_changes_of_a_history_are_dated(python: Callable[[str], str]) -> None:
    assert (
        python(
            """
import numpy as np
from trainyard.benchreport.history import change_points
wrong = missed = 0
for seed in range(200):
    random = np.random.default_rng(seed)
    steady = random.normal(0, 0.02, (40, 1))
    wrong += bool(change_points(steady))
    steady[25:] += np.log(0.9)
    found = [at for at, change, p in change_points(steady)]
    missed += not (found and min(abs(at - 25) for at in found) <= 1)
print(wrong <= 4, missed <= 10)
"""
        )
        == "True True\n"
    )
