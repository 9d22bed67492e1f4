"""However ranks share a model, they train the same one, and the one that its name says."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.by_day import by_day
from tests.trainer import independent
from tests.trainer.conftest import MODELS, WAYS, Run, Trained, Trainer, ended, started
from trainer import model as models
from trainer.presets import preset
from trainer.transformer import Transformer

pytestmark = pytest.mark.torch

TOLERANCE = 2e-5
"""Relative difference of losses in fp32 on the same data: sums are taken in another order, and that is all."""


Reference = Callable[[str], independent.Curve]


@pytest.fixture(scope="session")
def reference(text: Path, images: Path) -> Reference:
    """The same run by Hugging Face's model and a loop of the test's own."""

    @cache
    def once(model: str) -> independent.Curve:
        return independent.curve(model, images if model.startswith("vit") else text)

    return once


@pytest.mark.claim("trains-what-other-code-trains")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("way", "ranks"), [("ddp", 1), *((way, 2) for way in WAYS)])
def test_every_way_trains_the_model_that_other_code_trains(
    trained: Trained, reference: Reference, way: str, ranks: int, model: str
) -> None:
    run, _ = trained(way, ranks, model)

    assert run.code == 0, run.errors
    assert len(run.curve) == 12
    assert run.curve == pytest.approx(reference(model).losses, rel=TOLERANCE)
    norms = {line["step"]: line["gradient_norm"] for line in run.lines if "step" in line}
    assert norms == pytest.approx(reference(model).norms, rel=1e-4)
    assert run.result["world_size"] == ranks


@pytest.mark.claim("trains-what-other-code-trains")
@pytest.mark.parametrize("way", by_day(WAYS, "fsdp", "zero3"))
def test_so_do_four_ranks(trained: Trained, reference: Reference, way: str) -> None:
    run, _ = trained(way, 4)

    assert run.code == 0, run.errors
    assert run.curve == pytest.approx(reference("llama-tiny-tied").losses, rel=TOLERANCE)


@pytest.mark.parametrize("keys", [["micro_batch=2", "accumulation=4"], ["activation_checkpointing=full"],
                                  ["activation_checkpointing=selective"], ["data.workers=0"]])  # fmt: skip
def test_accumulation_and_recomputation_change_nothing(train: Trainer, one_rank: Run, keys: list[str]) -> None:
    run = train("run=other", *keys)

    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.parametrize("way", ["fsdp", "zero3"])
def test_layers_that_are_computed_again_may_be_shared_out(train: Trainer, one_rank: Run, way: str) -> None:
    run = train("run=both", *WAYS[way], "activation_checkpointing=full", ranks=2)

    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE), run.errors


@pytest.mark.parametrize("way", by_day(WAYS, "fsdp", "zero2"))
def test_layers_that_are_computed_again_train_alike(train: Trainer, one_rank: Run, way: str) -> None:
    run = train("run=again", *WAYS[way], "activation_checkpointing=full", "steps=4", ranks=2)

    assert run.code == 0, run.errors
    for step in (1, 2, 3):  # the learning rate is the longer run's up to here
        assert run.curve[step] == pytest.approx(one_rank.curve[step], rel=TOLERANCE)


HOST = '{"device": "cpu", "pin_memory": false}'
OFFLOADS = {
    "fsdp": "",
    "zero2": f'{{"stage": 2, "offload_optimizer": {HOST}}}',
    "zero3": f'{{"stage": 3, "offload_optimizer": {HOST}, "offload_param": {HOST}}}',
}


@pytest.mark.parametrize("way", OFFLOADS)
def test_an_offloaded_optimizer_takes_the_same_steps(train: Trainer, reference: Reference, way: str) -> None:
    file = train.checkpoints.with_name("policy.json")
    file.write_text(f'{{"zero_optimization": {OFFLOADS[way]}}}')
    keys = ["fsdp.offload=true"] if way == "fsdp" else [f"deepspeed.config={file}"]

    run = train("run=offloaded", *WAYS[way], *keys, ranks=2)

    assert run.code == 0, run.errors
    assert run.curve == pytest.approx(reference("llama-tiny-tied").losses, rel=TOLERANCE)


@pytest.mark.parametrize("model", ["gpt-tiny", "llama-tiny", "llama-tiny-tied", "vit-tiny"])
def test_fsdp_gathers_the_head_once_in_a_step(train: Trainer, images: Path, model: str) -> None:
    """Layers, and an embedding that is not the head, are gathered again for the backward pass."""
    shape, dataset = preset(model), [f"dataset={images}"] if model.startswith("vit") else []
    made = models.build(shape, "none", False)
    again: list[torch.Tensor] = [*made.layers.parameters()]
    if isinstance(made, Transformer) and not made.shape.tied:
        again.append(made.tokens.weight)
    expected = sum(parameter.numel() for parameter in (*made.parameters(), *again))
    keys = train.arguments(["run=gathers", f"model={model}", *dataset, *WAYS["fsdp"], "steps=3"], 2)

    run = ended(started("tests.trainer.altered", ["gathers", *keys], 2))

    said = [json.loads(line)["gathered"] for line in run.errors.splitlines() if line.startswith("{")]
    assert said == [expected] * 6, run.errors


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_the_host_waits_once_in_a_step(train: Trainer, way: str) -> None:
    """For the numbers of the step before; of the step under way it would have the device run dry."""
    keys = train.arguments(["run=waits", "metrics.every_steps=100", "checkpoint.every_steps=100", *WAYS[way]], 2)

    run = ended(started("tests.trainer.altered", ["waits", *keys], 2))

    said = [json.loads(line)["waits"] for line in run.errors.splitlines() if line.startswith("{")]
    assert said == [[], *[["tolist"]] * 11] * 2, run.errors


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("way", by_day(["ddp", "fsdp"], "fsdp"))
def test_low_precision_stays_near(train: Trainer, one_rank: Run, way: str, precision: str) -> None:
    run = train("run=low", *WAYS[way], f"precision={precision}", ranks=2)

    assert run.curve == pytest.approx(one_rank.curve, rel=2e-3)
