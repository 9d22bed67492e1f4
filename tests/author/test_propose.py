"""Every proposal is a job that the planner lets start and the batch arithmetic holds for."""

import pytest

from tests.author.support import HOME
from trainyard.author.answers import Answers, Preferences, Refused
from trainyard.author.choices import Choices
from trainyard.author.files import number
from trainyard.author.propose import ROOM, propose, rounded, size
from trainyard.author.recipe import recipe_for
from trainyard.objects.quantity import quantity
from trainyard.plan.shapes import shapes
from trainyard.yaml.sources import Sources

CHOICES = Choices(Sources(HOME))
MODELS = CHOICES.models()


def answers(model: str, launcher: str = "torchrun", cluster: str = "gpu-east", nodes: int = 4) -> Answers:
    return Answers("my-run", cluster, "research", launcher, model, nodes, "datasets", "/data/a")


def test_every_preset_of_the_trainer_can_be_chosen() -> None:
    assert set(MODELS) <= set(shapes())
    assert len(MODELS) > 20


@pytest.mark.claim("proposals-fit")
@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed"])
def test_proposals_fit_and_their_batch_is_what_the_ranks_take(launcher: str) -> None:
    too_large: set[str] = set()
    for model in MODELS:
        try:
            found = propose(CHOICES, answers(model, launcher), Preferences())
        except Refused as refusal:
            too_large.add(str(refusal).partition(" of ")[0])
            continue
        assert found.micro * found.accumulation * 32 == found.batch, model
        assert 1 <= found.every_steps < found.steps, model
        assert found.warmup_steps < found.steps, model
        room = quantity(found.room)
        assert room is not None
        assert room >= 4 * 12 * shapes()[model].parameters, model
        near = abs(found.batch / found.recipe.batch - 1) < 0.1
        assert near or found.scaled, model
        assert not near or found.learning_rate == found.recipe.learning_rate, model
    models = {"torchrun": ("gpt3-175b", "llama-3-70b", "llama-3.1-70b"), "deepspeed": ()}[launcher]
    assert too_large == {f"{model} does not fit 4 nodes" for model in models}


def test_what_a_model_needs_is_proposed_and_no_more() -> None:
    small, large = (propose(CHOICES, answers(model), Preferences()) for model in ("gpt2-124m", "llama-3.1-8b"))
    assert (small.parallelism, small.checkpointing, small.why_shared, small.why_again) == ("ddp", "none", "", "")
    assert (large.parallelism, large.checkpointing) == ("fsdp", "selective")
    assert large.why_shared == "ddp takes 156 of 79 GiB, one sample a pass"


def test_a_wish_is_taken_and_the_learning_rate_follows_a_batch_that_is_far_off() -> None:
    found = propose(CHOICES, answers("llama-3.1-8b"), Preferences(batch=128, tokens=1e9))
    assert (found.batch, found.steps, found.scaled) == (128, 954, True)
    assert found.learning_rate == float(f"{3e-4 * (128 / 488) ** 0.5:.2g}")
    odd = propose(CHOICES, answers("gpt2-124m"), Preferences(batch=31 * 32))
    assert (odd.micro * odd.accumulation, odd.batch) == (31, 31 * 32)  # 1024 would be faster

    own = propose(CHOICES, answers("llama-3.1-8b"), Preferences(batch=128, learning_rate=1e-5, steps=7))
    assert (own.learning_rate, own.scaled, own.steps, own.every_steps) == (1e-5, False, 7, 1)


def test_a_model_that_is_too_large_is_told_with_the_nodes_that_hold_it() -> None:
    with pytest.raises(Refused, match=r"llama-3\.1-70b does not fit 1 nodes of gpu-east: .*; it fits 5 nodes"):
        propose(CHOICES, answers("llama-3.1-70b", nodes=1), Preferences())


def test_tensorflow_shares_no_model() -> None:
    found = propose(CHOICES, answers("gpt2-355m", "tfjob"), Preferences())
    assert (found.parallelism, found.checkpointing) == ("ddp", "none")


def test_the_recipe_is_the_nearest_of_its_kind() -> None:
    named = {model: recipe_for(shapes()[model], 1024).name for model in ("gpt2-124m", "gpt2-1.5b", "vit-l-16")}
    assert named == {"gpt2-124m": "GPT-3 125M", "gpt2-1.5b": "GPT-3 1.3B", "vit-l-16": "ViT-L/16"}


@pytest.mark.parametrize(("value", "text"), [(6e-4, "6e-4"), (1.25e-5, "1.25e-5"), (1.0, "1e0"), (0.03, "3e-2")])
def test_learning_rates_are_written_as_people_write_them(value: float, text: str) -> None:
    assert number(value) == text
    assert float(text) == value


@pytest.mark.parametrize(("value", "text"), [(1, "10Gi"), (395 * 2**30, "400Gi"), (3.01 * 2**40, "4Ti"), (9e12, "9Ti")])
def test_sizes_are_rounded_up(value: float, text: str) -> None:
    assert size(value) == text


def test_counts_are_rounded_to_two_digits() -> None:
    assert [rounded(number) for number in (0.2, 44.4, 99.6, 1234, 987654)] == [1, 44, 100, 1200, 990000]
    assert ROOM < 1
