"""Shapes of models by name."""

from dataclasses import dataclass, replace
from typing import Literal

from trainer.errors import ConfigError

ALIGNED = 64
"""Tensor cores are fastest where the sides of a matrix are multiples of so many 16-bit numbers, which are 128 bytes
(NVIDIA, Matrix Multiplication Background User's Guide, table 1); 50257 words take 50304 rows."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer. Width is the embedding's; `hidden` that of the feed-forward layer."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    context: int
    norm: Literal["layer", "rms"]
    positions: Literal["learned", "rotary"]
    activation: Literal["gelu", "swiglu"]
    tied: bool
    bias: bool
    epsilon: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: tuple[float, float, float, int] | None = None
    """Llama 3.1's: factor, low and high frequency factor, context that was trained first."""

    @property
    def rows(self) -> int:
        """Rows of the embedding and the head in memory: the vocabulary, filled up to a multiple of ALIGNED."""
        return -(-self.vocabulary // ALIGNED) * ALIGNED


@dataclass(frozen=True, slots=True)
class Vision:
    """A ViT classifier of square images, `image` and `patch` in pixels."""

    layers: int
    width: int
    heads: int
    hidden: int
    image: int
    patch: int
    classes: int
    epsilon: float = 1e-6


Shape = Decoder | Vision


def _gpt(layers: int, width: int, heads: int, vocabulary: int = 50257, context: int = 1024) -> Decoder:
    return Decoder(
        layers, width, heads, heads, 4 * width, vocabulary, context, "layer", "learned", "gelu", tied=True, bias=True
    )


def _llama(
    layers: int, width: int, heads: int, kv_heads: int, hidden: int, vocabulary: int, context: int, theta: float
) -> Decoder:
    return Decoder(
        layers,
        width,
        heads,
        kv_heads,
        hidden,
        vocabulary,
        context,
        "rms",
        "rotary",
        "swiglu",
        False,
        False,
        rope_theta=theta,
    )


def _llama_31(layers: int, width: int, heads: int, hidden: int) -> Decoder:
    shape = _llama(layers, width, heads, 8, hidden, 128256, 131072, 500000.0)
    return replace(shape, rope_scaling=(8.0, 1.0, 4.0, 8192))


PRESETS: dict[str, Shape] = {
    # made for tests: a byte is a token
    "gpt-tiny": _gpt(2, 64, 4, 256, 256),
    "llama-tiny": _llama(2, 64, 4, 2, 160, 256, 256, 10000.0),
    "llama-tiny-tied": replace(_llama(2, 64, 4, 2, 160, 257, 256, 10000.0), tied=True),
    "vit-tiny": Vision(2, 64, 4, 128, 32, 8, 4),
    # made for measurements on CPUs and single GPUs
    "gpt-10m": _gpt(6, 320, 5, 4096, 512),
    "llama-1b": replace(_llama(16, 2048, 32, 8, 8192, 128256, 8192, 500000.0), tied=True),
    # Radford et al. 2019
    "gpt2-124m": _gpt(12, 768, 12),
    "gpt2-355m": _gpt(24, 1024, 16),
    "gpt2-774m": _gpt(36, 1280, 20),
    "gpt2-1.5b": _gpt(48, 1600, 25),
    # Brown et al. 2020, table 2.1
    "gpt3-1.3b": _gpt(24, 2048, 16, 50257, 2048),
    "gpt3-6.7b": _gpt(32, 4096, 32, 50257, 2048),
    "gpt3-13b": _gpt(40, 5120, 40, 50257, 2048),
    "gpt3-175b": _gpt(96, 12288, 96, 50257, 2048),
    # Touvron et al. 2023 (Llama 2), Grattafiori et al. 2024 (Llama 3)
    "llama-2-7b": _llama(32, 4096, 32, 32, 11008, 32000, 4096, 10000.0),
    "llama-2-13b": _llama(40, 5120, 40, 40, 13824, 32000, 4096, 10000.0),
    "llama-2-70b": _llama(80, 8192, 64, 8, 28672, 32000, 4096, 10000.0),
    "llama-3-8b": _llama(32, 4096, 32, 8, 14336, 128256, 8192, 500000.0),
    "llama-3-70b": _llama(80, 8192, 64, 8, 28672, 128256, 8192, 500000.0),
    "llama-3.1-8b": _llama_31(32, 4096, 32, 14336),
    "llama-3.1-70b": _llama_31(80, 8192, 64, 28672),
    # Dosovitskiy et al. 2021
    "vit-b-16": Vision(12, 768, 12, 3072, 224, 16, 1000),
    "vit-l-16": Vision(24, 1024, 16, 4096, 224, 16, 1000),
}


def preset(name: str) -> Shape:
    """The shape of a name. Raises ConfigError with the names there are."""
    if name not in PRESETS:
        raise ConfigError(f"model {name} is not known; there are {', '.join(PRESETS)}")
    return PRESETS[name]


def weights(shape: Shape) -> int:
    """Number of weights of a shape by arithmetic alone: what a model that was built is held to, tied weights once."""
    if isinstance(shape, Vision):
        width, hidden, patches = shape.width, shape.hidden, (shape.image // shape.patch) ** 2
        layer = 4 * width * (width + 1) + 2 * width * hidden + hidden + width + 4 * width
        return (3 * shape.patch**2 + 1 + patches + 2) * width + shape.layers * layer + (width + 1) * shape.classes
    width, hidden, bias = shape.width, shape.hidden, int(shape.bias)
    kv_width = shape.kv_heads * (width // shape.heads)
    norm = width * (1 + (bias if shape.norm == "layer" else 0))
    attention = (width + bias) * (width + 2 * kv_width) + (width + bias) * width
    into = hidden * (2 if shape.activation == "swiglu" else 1)
    layer = attention + (width + bias) * into + (hidden + bias) * width + 2 * norm
    words = shape.vocabulary * width * (1 if shape.tied else 2)
    positions = shape.context * width if shape.positions == "learned" else 0
    return words + positions + shape.layers * layer + norm


def flops_per_sample(shape: Shape, weights: int, sequence_length: int) -> float:
    """Operations of forward and backward for one sample, nothing computed twice counted twice.

    6 for each weight that is multiplied and each token, and 12 x layers x width x tokens for attention, causal or not
    (the convention of Chowdhery et al. 2022, appendix B). Embeddings that are only looked up do not count.
    """
    if isinstance(shape, Decoder):
        looked_up = shape.context * shape.width if shape.positions == "learned" else 0
        looked_up += 0 if shape.tied else shape.vocabulary * shape.width
        tokens = sequence_length
    else:
        tokens = (shape.image // shape.patch) ** 2
        looked_up = tokens * shape.width
    return tokens * (6.0 * (weights - looked_up) + 12.0 * shape.layers * shape.width * tokens)


def check_length(model: str, shape: Shape, length: int) -> None:
    """Raises ConfigError where a sample is longer than what the model was made for."""
    if isinstance(shape, Decoder) and length > shape.context:
        raise ConfigError(f"sequence_length {length} is longer than the context of {model}, which is {shape.context}")
