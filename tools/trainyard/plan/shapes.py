"""Shapes of transformers, and what follows from a shape alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trainyard.plan.hardware import read


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer. A Vision Transformer has no vocabulary; its classes stand there, and its tokens are patches."""

    name: str
    layers: int
    width: int
    heads: int
    kv: int
    """Heads of keys and values."""
    hidden: int
    vocabulary: int
    context: int = 0
    """Tokens of the longest sample; 0 where it is not known, and for images."""
    positions: int = 0
    """Rows of the table of learned positions."""
    gated: bool = False
    tied: bool = True
    bias: bool = False
    patches: int = 0
    """Tokens of one image; 0 for text, whose length is the job's."""
    embedding: int = 0
    """Weights of what makes tokens of pixels."""
    total: int = 0
    """Weights in all where a source states them; else they are counted."""

    @property
    def kv_width(self) -> int:
        """Width of keys, and of values."""
        return self.width * self.kv // self.heads

    @property
    def layer_matrices(self) -> int:
        """Weights of one layer that are multiplied: attention's four matrices and the feed-forward layer's."""
        attention = 2 * self.width * (self.width + self.kv_width)
        return attention + (3 if self.gated else 2) * self.width * self.hidden

    @property
    def layer(self) -> int:
        """Weights of one layer, norms and biases included."""
        norms = (4 if self.bias else 2) * self.width
        biases = self.width * 2 + 2 * self.kv_width + self.hidden + self.width if self.bias else 0
        return self.layer_matrices + norms + biases

    @property
    def looked_up(self) -> int:
        """Weights that are looked up and never multiplied: positions, and an embedding that is not the head too."""
        if self.patches:
            return self.positions * self.width
        return (self.positions + (0 if self.tied else self.vocabulary)) * self.width

    @property
    def head(self) -> int:
        """Weights of the output matrix."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """Weights in all, shared ones once."""
        if self.total:
            return self.total
        last = (2 if self.bias else 1) * self.width
        head = self.head + (self.vocabulary if self.patches else 0)
        return self.layers * self.layer + head + self.looked_up + self.embedding + last


@cache
def shapes() -> Mapping[str, Shape]:
    """Every model of models.yaml by name."""
    document = read("models.yaml")
    found = {}
    for name, facts in document["decoders"].items():
        found[name] = Shape(name, **{key: value for key, value in facts.items() if key != "from"})
    for name, facts in document["vision"].items():
        patches = (facts["image"] // facts["patch"]) ** 2
        width = facts["width"]
        found[name] = Shape(
            name,
            facts["layers"],
            width,
            facts["heads"],
            facts["heads"],
            facts["hidden"],
            facts["classes"],
            positions=patches,
            bias=True,
            patches=patches,
            embedding=3 * facts["patch"] ** 2 * width + width,
        )
    return found
