"""The published recipe that is nearest to a model: its batch, learning rate and warm-up."""

import math
from dataclasses import dataclass

from trainyard.plan.hardware import read
from trainyard.plan.shapes import Shape


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model was trained from scratch with AdamW."""

    name: str
    source: str
    learning_rate: float
    batch: int
    """Samples of an optimizer step, at the sequence length that it was asked for."""
    warmup_steps: int
    samples: float
    """Samples that are worth training on."""


def recipe_for(shape: Shape, sequence: int) -> Recipe:
    """The recipe of the model of the same kind that is nearest in weights, for samples of `sequence` tokens."""
    document = read("recipes.yaml")
    kind = "image" if shape.patches else "gated" if shape.gated else "plain"
    near = {name: facts for name, facts in document["recipes"].items() if facts["kind"] == kind}
    name = min(near, key=lambda name: abs(math.log(near[name]["weights"] / shape.parameters)))
    facts = near[name]
    batch = facts["batch"] if shape.patches else max(1, round(facts["batch"] / sequence))
    warmup = facts.get("warmup_steps")
    return Recipe(
        name=name,
        source=document["sources"][facts["from"]],
        learning_rate=facts["learning_rate"],
        batch=batch,
        warmup_steps=round(facts["warmup_tokens"] / facts["batch"]) if warmup is None else warmup,
        samples=facts.get("samples") or document["tokens_per_weight"]["value"] * shape.parameters / sequence,
    )
