"""--score: every row from its inputs alone, or refused with the reason."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.support import HERE, RUNS, hold, plan
from trainyard.plan.calibrate import FILE
from trainyard.plan.constants import NAMES, Constants, constants
from trainyard.plan.fit import fit
from trainyard.plan.hardware import read
from trainyard.plan.page import PAGE, page
from trainyard.plan.score import load, readable, score, summary

DOCUMENT = load(RUNS)
FEW = load(HERE / "runs" / "few.yaml")
ANSWERS = ("tokens_s_gpu", "tokens_s", "iteration_s", "tflops_gpu", "mfu_pct", "hfu_pct", "peak_memory_gib")


def test_what_is_printed() -> None:
    said = plan("--score", HERE / "runs" / "few.yaml")

    assert said.code == 0
    hold("score.json", said.out)
    assert set(said.json) == {"rows", "summary"}
    assert all(set(row) == {"id", "measured", "predicted", "error", "refused"} for row in said.json["rows"])


def test_error_is_relative_to_what_was_measured() -> None:
    for row in plan("--score", RUNS).json["rows"]:
        if row["refused"] is None:
            error = abs(row["predicted"] - row["measured"]) / row["measured"]
            assert row["error"] == pytest.approx(error, rel=1e-5, abs=1e-9)
        else:
            assert (row["predicted"], row["error"]) == (None, None)


def test_one_job_in_three_metrics_is_one_forecast() -> None:
    rows = {row["id"]: row["predicted"] for row in plan("--score", HERE / "runs" / "few.yaml").json["rows"]}

    assert rows["whole"] == pytest.approx(8 * rows["per-gpu"], rel=1e-4)
    assert rows["iteration"] == pytest.approx(8 * 4 * 2048 / rows["whole"], rel=1e-4)
    assert rows["unmeasured"] == rows["per-gpu"]


@settings(max_examples=40)
@given(number=st.integers(0, len(DOCUMENT["rows"]) - 1), factor=st.floats(0.01, 100))
def test_no_forecast_depends_on_an_answer(number: int, factor: float) -> None:
    row = DOCUMENT["rows"][number]
    other = {key: value * factor if key in ANSWERS else value for key, value in row.items()}

    [before], [after] = (score({**DOCUMENT, "rows": [it]}, constants()) for it in (row, other))

    assert (before.predicted, before.refused) == (after.predicted, after.refused)


JUNK = st.sampled_from([None, "", "x", 0, -1, 1.5, 10**30, float("inf"), True, [], {}, ["a"], {"a": 1}])


@settings(max_examples=150)
@given(number=st.integers(0, len(DOCUMENT["rows"]) - 1), data=st.data(), junk=JUNK)
def test_nonsense_is_refused_or_forecast_and_never_raises(number: int, data: st.DataObject, junk: Any) -> None:
    row = deepcopy(DOCUMENT["rows"][number])
    row[data.draw(st.sampled_from(sorted(row)))] = junk

    [said] = score({**DOCUMENT, "rows": [row]}, constants())

    assert (said.predicted is None) == (said.refused is not None)
    assert said.predicted is None or 0 < said.predicted < float("inf")


@pytest.mark.parametrize("section", ["sources", "models"])
@pytest.mark.parametrize("junk", [None, [], "x", {"mpt": 3}, {"mpt-70b": [1]}])
def test_a_section_of_nonsense_is_no_fault(section: str, junk: Any) -> None:
    said = score({**DOCUMENT, "rows": DOCUMENT["rows"][:1], section: junk}, constants())

    assert len(said) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows: {", "runs.yaml:1:8: a value is missing"),
        ("rows: 3", "runs.yaml: has no list of `rows`"),
        ("rows: [3]", "runs.yaml: has no list of `rows`"),
        ("", "runs.yaml: has no list of `rows`"),
        ("\xff", "runs.yaml: is not UTF-8 text"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "runs.yaml"
    file.write_bytes(text.encode("latin-1"))

    said = plan("--score", "runs.yaml", cwd=tmp_path)

    assert said.code == 2
    assert message in said.errors
    assert len(said.errors.splitlines()) <= 2


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    said = plan("--score", "none.yaml", cwd=tmp_path)

    assert (said.code, said.errors) == (2, "plan-job: none.yaml: cannot be read: No such file or directory\n")


def test_accuracy_is_what_docs_say() -> None:
    found = summary(score(DOCUMENT, constants()))

    assert found["rows"] == 117
    assert found["refused"] == 13
    assert found["median"] < 0.04
    assert found["p90"] < 0.12
    assert PAGE.read_text() == page()


def test_constants_are_what_fit_finds_and_lie_within_their_bounds() -> None:
    facts = read("forecast.yaml")["constants"]
    bounds = {name: (facts[name]["low"], facts[name]["high"]) for name in NAMES}
    prior = Constants(**{name: facts[name]["prior"] for name in NAMES})

    found = fit(readable(DOCUMENT), prior, prior, bounds).constants

    for name in NAMES:
        assert bounds[name][0] <= getattr(constants(), name) <= bounds[name][1]
        assert getattr(constants(), name) == pytest.approx(getattr(found, name), rel=1e-3), f"{name}: run --fit {RUNS}"


def test_every_source_that_is_forecast_was_left_out_once() -> None:
    held = read("forecast.yaml")["held_out"]

    assert set(held) == {"all"} | {item.source for item in readable(DOCUMENT)}
    assert held["all"]["rows"] == len(readable(DOCUMENT))
    assert FILE.is_file()
