"""However ranks share a model, they train the same one: the loss curve is that of one rank."""

from pathlib import Path

import pytest

from tests.trainer.conftest import WAYS, Run, Trained, Trainer

pytestmark = pytest.mark.torch

TOLERANCE = 2e-5
"""Relative difference of losses in fp32 on the same data: sums are taken in another order, and that is all."""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_loss_curve_is_that_of_one_rank(trained: Trained, one_rank: Run, way: str, ranks: int) -> None:
    run, _ = trained(way, ranks)

    assert run.code == 0, run.errors
    assert len(run.curve) == 12
    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)
    assert run.result["world_size"] == ranks


@pytest.mark.parametrize("keys", [["micro_batch=2", "accumulation=4"], ["activation_checkpointing=full"],
                                  ["activation_checkpointing=selective"], ["data.workers=0"]])  # fmt: skip
def test_accumulation_and_recomputation_change_nothing(train: Trainer, one_rank: Run, keys: list[str]) -> None:
    run = train("run=other", *keys)

    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.parametrize("way", ["fsdp", "zero3"])
def test_layers_that_are_computed_again_may_be_shared_out(train: Trainer, one_rank: Run, way: str) -> None:
    run = train("run=both", *WAYS[way], "activation_checkpointing=full", ranks=2)

    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE), run.errors


@pytest.mark.parametrize("way", WAYS)
def test_layers_that_are_computed_again_train_alike(train: Trainer, one_rank: Run, way: str) -> None:
    run = train("run=again", *WAYS[way], "activation_checkpointing=full", "steps=4", ranks=2)

    assert run.code == 0, run.errors
    for step in (1, 2, 3):  # the learning rate is the longer run's up to here
        assert run.curve[step] == pytest.approx(one_rank.curve[step], rel=TOLERANCE)


@pytest.mark.parametrize("way", WAYS)
def test_images_train_alike(train: Trainer, images: Path, way: str) -> None:
    keys = ["model=vit-tiny", f"dataset={images}", "steps=4"]
    alone = train("run=alone", *keys)

    run = train("run=many", *keys, *WAYS[way], ranks=2)

    assert run.curve == pytest.approx(alone.curve, rel=TOLERANCE), run.errors


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_low_precision_stays_near(train: Trainer, one_rank: Run, way: str, precision: str) -> None:
    run = train("run=low", *WAYS[way], f"precision={precision}", ranks=2)

    assert run.curve == pytest.approx(one_rank.curve, rel=2e-3)
