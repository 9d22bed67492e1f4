"""trainer.bench: right results, nccl-tests' definitions, one JSON object."""

import json
from pathlib import Path

import pytest

from tests.trainer.conftest import started
from trainer.bench import FACTORS, sizes_between

pytestmark = pytest.mark.torch


def test_collectives_are_right_and_their_bandwidths_follow(tmp_path: Path) -> None:
    ranks = started("trainer.bench", ["--max-bytes=65536", "--repeat=3", f"--out={tmp_path / 'out.json'}"], 3)

    assert ranks.wait() == [0, 0, 0], ranks.errors
    found = json.loads((tmp_path / "out.json").read_text())
    assert json.loads(ranks.out) == found
    assert (found["world_size"], found["backend"], found["launcher"]) == (3, "gloo", "environment")
    assert {row["collective"] for row in found["collectives"]} == set(FACTORS)
    for row in found["collectives"]:
        assert row["correct"]
        expected = row["bytes"] / row["microseconds"] / 1e3
        assert row["algorithm_gb_per_second"] == pytest.approx(expected, rel=0.05, abs=1e-4)
        factor = {"all_reduce": 4 / 3, "broadcast": 1}.get(row["collective"], 2 / 3)
        assert row["bus_gb_per_second"] == pytest.approx(expected * factor, rel=0.05, abs=1e-4)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1, 2]
    assert all(rank["product_tflops"] > 0 and rank["memory_gb_per_second"] > 0 for rank in found["ranks"])


def test_unknown_collective_is_told() -> None:
    ranks = started("trainer.bench", ["--collectives=all_reduec"], 1)

    assert ranks.wait() == [2]
    assert "no collective all_reduec; there are all_reduce" in ranks.errors


def test_sizes_grow_fourfold() -> None:
    assert sizes_between(1024, 70000) == [1024, 4096, 16384, 65536]
