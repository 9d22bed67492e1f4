"""What tools/fuzz makes of a search: its numbers, whose turn it is, and the table."""

from pathlib import Path

import pytest

from tests.fuzz import run

LOG = """\
INFO: Running with entropic power schedule (0xFF, 100).
#2\tINITED cov: 90 ft: 120 corp: 1/3b exec/s: 0 rss: 59Mb
#4096\tpulse  cov: 97 ft: 300 corp: 40/1Kb lim: 80 exec/s: 900 rss: 59Mb
#5000\tDONE   cov: 98 ft: 310 corp: 44/2Kb lim: 80 exec/s: 900 rss: 59Mb
Done 5000 runs in 5 second(s)
stat::number_of_executed_units: 5123
stat::average_exec_per_sec:     900
stat::new_units_added:          44
"""


def test_a_search_is_read_while_it_runs_and_when_it_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG.partition("#5000")[0])
    assert run.read("yaml", log, 4.5) == run.Searched("yaml", 4096, 4.5, 97)
    log.write_text(LOG)
    assert run.read("yaml", log, 5.0) == run.Searched("yaml", 5123, 5.0, 98, 44)


@pytest.mark.claim("fuzz-in-turns-and-sums")
def test_all_targets_get_the_same_in_turns() -> None:
    assert list(run.turns(["a", "b"], 800)) == [("a", 300), ("b", 300), ("a", 100), ("b", 100)]


@pytest.mark.claim("fuzz-in-turns-and-sums")
def test_runs_are_summed_by_target() -> None:
    runs = [
        run.Searched("yaml", 1000, 60.0, 90, 5),
        run.Searched("env", 10, 30.0, 7, 1, ("found-a",)),
        run.Searched("yaml", 2000, 120.0, 80, 6),
    ]

    assert (
        run.table(run.summed(runs))
        == """\
| target      | minutes | executions | edges | new inputs | findings |
|-------------|--------:|-----------:|------:|-----------:|---------:|
| env         |     0.5 |         10 |     7 |          1 |        1 |
| yaml        |     3.0 |      3,000 |    90 |         11 |        0 |
| all, 0.06 h |     3.5 |      3,010 |       |         12 |        1 |"""
    )
