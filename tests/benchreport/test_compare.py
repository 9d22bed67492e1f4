"""Runs in, a verdict out: what is slower is named, what is not is left alone, and what cannot be told is said."""

import copy

import pytest

from tests.benchreport.conftest import BASELINE, Bench
from tests.benchreport.made import run
from tests.by_day import by_day

pytestmark = pytest.mark.report
LATER = range(BASELINE, BASELINE + 8)


def test_a_slow_node_is_named_with_its_gpu_and_what_it_costs(bench: Bench) -> None:
    bench.locked(nodes=4)
    said = bench.compare(*bench.write([run(number, 4, {"node-002": 0.92}) for number in LATER]))
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[: lines.index("runs:")] == [
        "The cluster is 6.6% slower in gpt-3/tokens_per_second, and node-002 is 7.2% slower in product_tflops",
        "  the cluster: gpt-3/tokens_per_second is 6.6% slower than in the baseline (1.633 M -> 1.524 M, p < 0.0001)",
        "  node-002: product_tflops is 7.2% slower beside the other nodes and its own baseline (637.8 -> 595.5, "
        "p < 0.0001)",
        "  gpt-3/tokens_per_second changed by -6.6% with gpu-east-012 (p < 0.0001)",
        "  post-mortem, product_tflops: node-002 is 11% slower beside the others and its own baseline (rank 18)",
        "  post-mortem, gpt-3: node-002 needs 0.139 s a step more for compute than the median node; the others wait "
        "for it in their collectives (rank 18)",
    ]


def test_a_cluster_that_is_slower_names_no_node(bench: Bench) -> None:
    bench.locked(nodes=4)
    said = bench.compare(*bench.write([run(number, 4, cluster=0.9) for number in LATER]), "--format", "json")
    assert said.code == 1
    assert {(row["measure"], row["node"]) for row in said.json["findings"]} == {
        ("collectives/all_reduce_64MiB_bus_gb_per_second", ""),
        ("gpt-3/tokens_per_second", ""),
        ("median node: product_tflops", ""),
    }
    assert [cause["phase"] for cause in said.json["causes"]] == ["compute"]
    assert {change["run"] for change in said.json["changes"]} == {f"gpu-east-{BASELINE:03d}"}


@pytest.mark.claim("healthy-runs-are-clean")
@pytest.mark.parametrize("nodes", by_day([1, 4, 500], 1, 4))
def test_healthy_runs_are_clean_although_gpus_differ(bench: Bench, nodes: int) -> None:
    bench.locked(nodes, noise=0.006)
    said = bench.compare(*bench.write([run(number, nodes, noise=0.006) for number in LATER]))
    assert (said.code, said.out.splitlines()[0]) == (0, "Nothing is slower")


def test_another_driver_is_not_comparable_and_says_so(bench: Bench) -> None:
    bench.locked(nodes=4)
    other = copy.deepcopy(run(BASELINE, 4))
    other["fingerprint"]["driver"]["nvidia"] = "590.10"
    said = bench.compare(*bench.write([other]))
    assert said.code == 4
    assert said.out.splitlines() == [
        "Not comparable: 1 run did not run on what the baseline ran on",
        "  gpu-east-012: driver.nvidia: 580.95.05 -> 590.10",
    ]


def test_noise_asks_for_more_runs(bench: Bench) -> None:
    bench.locked(nodes=4, noise=0.04)
    said = bench.compare(*bench.write([run(number, 4, noise=0.04) for number in LATER]))
    assert (said.code, said.out.splitlines()[0]) == (5, "Too few runs to tell")
    assert "12 baseline runs are too few to find 5%: lock a baseline of" in said.out


@pytest.mark.claim("new-node-beside-the-others")
def test_a_new_node_is_put_beside_the_others(bench: Bench) -> None:
    bench.locked(nodes=4)
    later = [run(number, 6, {"node-004": 0.85, "node-005": 0.97}) for number in LATER]
    said = bench.compare(*bench.write(later), "--format", "json")
    assert said.code == 1
    new = [row for row in said.json["findings"] if not row["own"]]
    assert [(row["node"], row["measure"]) for row in new] == [("node-004", "product_tflops")]


@pytest.mark.claim("disturbed-run-is-no-alarm")
def test_one_disturbed_run_is_no_alarm(bench: Bench) -> None:
    bench.locked(nodes=8)
    later = [run(number, 8, {"node-003": 0.6} if number == BASELINE + 1 else {}) for number in LATER]
    said = bench.compare(*bench.write(later), "--format", "json")
    assert said.json["findings"] == []


def test_the_post_mortem_tells_a_slow_fabric_from_a_slow_node(bench: Bench) -> None:
    bench.locked(nodes=4)
    later = [run(number, 4) for number in LATER]
    for phases in later[-1]["workloads"]["gpt-3"]["phases"].values():
        phases["communication"] += 0.5
    said = bench.compare(*bench.write(later), "--format", "json")
    (cause,) = said.json["causes"]
    assert (cause["phase"], cause["node"]) == ("communication", "")
    assert cause["said"] == "all nodes alike need 0.500 s a step more for communication than in the baseline"


def test_runs_of_the_baseline_are_passed_over_and_the_newest_can_be_asked_for(bench: Bench) -> None:
    files = bench.locked(nodes=4)
    files += bench.write([run(number, 4, cluster=0.8 if number < LATER[3] else 1.0) for number in LATER])
    assert bench.compare(*files, "--last", "3", "--format", "json").json["runs"] == [
        f"gpu-east-{number:03d}" for number in LATER[-3:]
    ]
    said = bench.compare(*files[:BASELINE])
    assert (said.code, said.errors) == (2, "bench-report: every run given is one of the baseline's own\n")
