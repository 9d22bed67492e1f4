"""What cannot be read ends as one line with its place, and leaves nothing half-written."""

import json
from pathlib import Path

import pytest

from tests.benchreport.conftest import Bench
from tests.benchreport.made import run

pytestmark = pytest.mark.report


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind": "BenchmarkRun",\n "name" "x"}', "bad.json:2:9: is not JSON: Expecting ':' delimiter"),
        ('{"kind": "Pod"}', "bad.json: is not a BenchmarkRun: its kind is 'Pod'"),
        (json.dumps({**run(3, 1), "measures": {"speed": 0}}), "bad.json: measures.speed: 0 is less than or equal to"),
        ('{"kind": "BenchmarkRun", "measures": {"speed": NaN}}', "bad.json: is not JSON: NaN is not a number"),
        ("[" * 100000, "bad.json: is not JSON: "),
    ],
)
def test_a_file_that_is_no_run(bench: Bench, text: str, said: str) -> None:
    (bench.folder / "bad.json").write_text(text)
    answer = bench("lock", "x", "bad.json", "--out", "out.json")
    assert answer.code == 2
    assert answer.errors.startswith(f"bench-report: {said}")
    assert answer.errors.count("\n") == 1
    assert not (bench.folder / "out.json").exists()


def test_runs_of_two_machines_are_no_baseline(bench: Bench) -> None:
    runs = [run(number, 1) for number in range(3)]
    runs[2]["fingerprint"] = {**runs[2]["fingerprint"], "image": {"gpt-3": "other"}}
    said = bench("lock", "x", *bench.write(runs), "--out", "out.json")
    assert said.code == 2
    assert "gpu-east-000 and gpu-east-002 cannot be one baseline: image.gpt-3: " in said.errors
    assert sorted(Path(bench.folder).glob("*out*")) == []


def test_a_measure_that_no_run_has(bench: Bench) -> None:
    bench.locked(nodes=1)
    said = bench.compare(*bench.write([run(12, 1)]), "--measure", "sped")
    assert said.code == 2
    assert said.errors == (
        "bench-report: no run has a measure sped; they have collectives/all_reduce_64MiB_bus_gb_per_second, "
        "gpt-3/tokens_per_second, memory_gb_per_second, product_tflops\n"
    )
