"""However ranks share a model, they train the same one: the loss curve is that of one rank."""

import pytest

from tests.trainer.conftest import Run, Trainer

pytestmark = pytest.mark.torch

TOLERANCE = 2e-5
"""Relative difference of losses in fp32 on the same data: sums are taken in another order, and that is all."""

WAYS = {
    "ddp": ["parallelism=ddp"],
    "fsdp": ["parallelism=fsdp"],
    "zero1": ["parallelism=deepspeed", "deepspeed.stage=1"],
    "zero2": ["parallelism=deepspeed", "deepspeed.stage=2"],
    "zero3": ["parallelism=deepspeed", "deepspeed.stage=3"],
}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_loss_curve_is_that_of_one_rank(train: Trainer, one_rank: Run, way: str, ranks: int) -> None:
    run = train("run=many", *WAYS[way], "checkpoint.every_steps=1000", ranks=ranks)

    assert run.code == 0, run.errors
    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)
    assert run.result["world_size"] == ranks


@pytest.mark.parametrize("keys", [["micro_batch=2", "accumulation=4"], ["activation_checkpointing=full"],
                                  ["activation_checkpointing=selective"], ["data.workers=0"]])  # fmt: skip
def test_accumulation_and_recomputation_change_nothing(train: Trainer, one_rank: Run, keys: list[str]) -> None:
    run = train("run=other", *keys)

    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_low_precision_stays_near(train: Trainer, one_rank: Run, way: str, precision: str) -> None:
    run = train("run=low", *WAYS[way], f"precision={precision}", ranks=2)

    assert run.curve == pytest.approx(one_rank.curve, rel=2e-3)
