"""Shapes are those that were published, and models are built without memory and filled alike everywhere."""

import pytest
import torch

from tests.trainer.conftest import Trainer
from trainer import model
from trainer.optimizer import LossScale
from trainer.presets import PRESETS, Decoder, flops_per_sample, preset, weights
from trainer.transformer import Transformer, rotate, rotations

pytestmark = pytest.mark.torch

PUBLISHED = {
    "gpt2-124m": 124_439_808,
    "gpt2-355m": 354_823_168,
    "gpt2-774m": 774_030_080,
    "gpt2-1.5b": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-1b": 1_235_814_400,
}
"""Weights of the checkpoints that their authors released."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_as_many_weights_as_was_published(name: str) -> None:
    assert weights(preset(name)) == PUBLISHED[name]


def test_gpt3_is_as_large_as_its_table_says() -> None:
    assert weights(preset("gpt3-175b")) / 1e9 == pytest.approx(174.6, abs=0.05)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_take_no_memory_before_they_are_filled(name: str) -> None:
    made = model.build(PRESETS[name], "full", False)

    assert all(parameter.is_meta for parameter in made.parameters())
    assert not list(made.buffers())
    true = {name: model.true_size(made.shape, name, parameter.shape) for name, parameter in made.named_parameters()}
    assert sum(size.numel() for size in true.values()) == weights(PRESETS[name])


@pytest.mark.parametrize("name", ["gpt-tiny", "llama-tiny", "llama-tiny-tied", "vit-tiny"])
def test_what_is_one_parameter_before_it_is_filled_is_one_after(name: str) -> None:
    made = model.build(PRESETS[name], "none", False)
    before = [name for name, _ in made.named_parameters()]

    model.fill(made, 1, torch.device("cpu"))

    assert [name for name, _ in made.named_parameters()] == before


@pytest.mark.claim("rows-that-are-no-words")
def test_rows_that_are_no_words_are_zero_and_change_nothing() -> None:
    shape = PRESETS["llama-tiny-tied"]
    assert isinstance(shape, Decoder)
    made = model.build(shape, "none", False)
    assert isinstance(made, Transformer)
    model.fill(made, 1, torch.device("cpu"))
    tokens = torch.randint(0, 257, (2, 16), generator=torch.Generator().manual_seed(1))

    loss = made(tokens, tokens.roll(-1))
    loss.backward()

    assert made.tokens.weight.shape == (320, 64)
    assert made.tokens.weight.grad is not None
    assert not made.tokens.weight[257:].any()
    assert not made.tokens.weight.grad[257:].any()
    assert made.tokens.weight.grad[:257].any(dim=1).all()


@pytest.mark.claim("trains-what-other-code-trains")
def test_first_values_depend_on_seed_and_name_alone() -> None:
    cpu = torch.device("cpu")
    first, second, other = (model.build(preset("llama-tiny"), way, False) for way in ("none", "full", "none"))
    for made, seed in ((first, 1), (second, 1), (other, 2)):
        model.fill(made, seed, cpu)

    names = [model.plain(name) for name, _ in second.named_parameters()]
    assert names == [name for name, _ in first.named_parameters()]
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    values, others = first.state_dict(), other.state_dict()
    assert not torch.equal(values["tokens.weight"], others["tokens.weight"])
    assert float(values["layers.0.attention.out.weight"].std()) == pytest.approx(0.02 / 2, rel=0.05)


def test_first_loss_is_that_of_a_guess() -> None:
    made = model.build(preset("gpt-tiny"), "none", False)
    model.fill(made, 1, torch.device("cpu"))
    tokens = torch.randint(0, 256, (8, 64), generator=torch.Generator().manual_seed(1))

    loss = made(tokens, tokens.roll(1)) / tokens.numel()

    assert float(loss.detach()) == pytest.approx(torch.log(torch.tensor(256.0)).item(), rel=0.02)


def test_attention_looks_back_alone() -> None:
    made = model.build(preset("llama-tiny"), "none", False)
    model.fill(made, 1, torch.device("cpu"))
    tokens = torch.randint(0, 256, (1, 16), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[0, 10] += 1
    ignored = torch.full_like(tokens, -100)
    ignored[0, :10] = tokens[0, 1:11]
    ignored[0, 9] = -100

    assert torch.equal(made(tokens, ignored), made(changed, ignored))


def test_rotary_positions_turn_by_distance() -> None:
    shape = preset("llama-tiny")
    assert isinstance(shape, Decoder)
    cosine, sine = rotations(shape, 32, torch.device("cpu"))
    q, k = torch.randn(2, 1, 1, 1, 16, generator=torch.Generator().manual_seed(1)).expand(2, 1, 1, 32, 16)

    scores = rotate(q, cosine, sine)[0, 0] @ rotate(k, cosine, sine)[0, 0].T

    assert torch.allclose(scores.diagonal(), scores[0, 0].expand(32), atol=1e-5)
    assert torch.allclose(scores.diagonal(5), scores[0, 5].expand(27), atol=1e-5)
    assert not torch.allclose(scores[0, 5], scores[0, 0], atol=1e-3)


def test_operations_of_gpt3() -> None:
    """Narayanan et al. 2021, equation 3, at 175 B: 3/4 of it, for there every layer is computed twice."""
    shape = preset("gpt3-175b")
    assert isinstance(shape, Decoder)
    length = 2048
    layers, width, vocabulary = 96, 12288, 50257
    twice = 96 * length * layers * width**2 * (1 + length / (6 * width) + vocabulary / (16 * layers * width))
    head = 6 * length * width * vocabulary  # computed once there, too

    ours = flops_per_sample(shape, weights(shape), length)

    assert ours == pytest.approx((twice - head) * 3 / 4 + head, rel=0.002)


def test_vision_classifier_learns(images: object, train: Trainer) -> None:
    keys = ["model=vit-tiny", f"dataset={images}", "steps=60", "global_batch=32", "micro_batch=32"]
    run = train("run=vision", *keys)

    assert run.code == 0, run.errors
    assert run.curve[60] < 0.8 * run.curve[1]
    assert "samples_per_second" in run.result


@pytest.mark.long
def test_compiled_layers_train_alike(train: Trainer) -> None:
    plain = train("run=plain", "steps=3", "warmup_steps=1")
    compiled = train("run=compiled", "steps=3", "warmup_steps=1", "compile=true")

    assert compiled.curve == pytest.approx(plain.curve, rel=1e-4), compiled.errors


def test_loss_scale_halves_on_overflow_and_grows_with_patience() -> None:
    scale = LossScale(1024.0, patience=2)

    for overflow in (True, False, False, False):
        scale.after(overflow)

    assert scale.value == 1024.0
