"""The decoder of trainer/transformer.py in TensorFlow: the same shapes, the same weights by the same names."""

import hashlib
import math
from collections.abc import Iterator

import tensorflow as tf

from trainer.data import IGNORED
from trainer.presets import Decoder


class TensorFlowDecoder(tf.Module):  # type: ignore[misc]
    """Tokens to the sum of their losses. Matrix products are in `dtype`, all else in fp32."""

    def __init__(self, shape: Decoder, seed: int, dtype: tf.DType) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.weights = {
            name: tf.Variable(_first_value(shape, name, size, seed), name=name) for name, size in sizes(shape)
        }
        """By the names that trainer/model.py has, in its order."""

    def loss(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """inputs, targets: [batch, time] token ids; returns the summed loss of all targets that are not IGNORED."""
        shape = self.shape
        batch, time = inputs.shape
        x = tf.gather(self.weights["tokens.weight"], tf.reshape(inputs, [-1]))
        rotation = None
        if shape.positions == "learned":
            x += tf.tile(self.weights["positions.weight"][:time], [batch, 1])
        else:
            rotation = _rotations(shape, time)
        for number in range(shape.layers):
            layer = f"layers.{number}."
            x += self._attention(self._norm(x, f"{layer}norm1"), f"{layer}attention.", batch, rotation)
            x += self._feed_forward(self._norm(x, f"{layer}norm2"), f"{layer}feed_forward.")
        head = "tokens" if shape.tied else "head"
        logits = tf.cast(self._linear(self._norm(x, "norm"), head), tf.float32)
        wanted = tf.reshape(targets, [-1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(wanted, 0), logits)
        return tf.reduce_sum(tf.where(wanted == IGNORED, 0.0, losses))

    def _linear(self, x: tf.Tensor, name: str) -> tf.Tensor:
        """x: [tokens, in]; returns [tokens, out] in `dtype`."""
        matrix = tf.cast(self.weights[f"{name}.weight"], self.dtype)
        y = tf.matmul(tf.cast(x, self.dtype), matrix, transpose_b=True)
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + tf.cast(bias, self.dtype)

    def _norm(self, x: tf.Tensor, name: str) -> tf.Tensor:
        """x: [tokens, width], and so is what it returns."""
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        if self.shape.norm == "layer":
            x -= tf.reduce_mean(x, axis=-1, keepdims=True)
        x *= tf.math.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + self.shape.epsilon)
        return x * weight if bias is None else x * weight + bias

    def _attention(
        self, x: tf.Tensor, name: str, batch: int, rotation: tuple[tf.Tensor, tf.Tensor] | None
    ) -> tf.Tensor:
        """Causal attention of [batch * time, width]; returns the same."""
        shape, head = self.shape, self.shape.width // self.shape.heads
        parts = tf.split(
            self._linear(x, f"{name}qkv"), [shape.heads * head, shape.kv_heads * head, shape.kv_heads * head], axis=1
        )
        q, k, v = (
            tf.transpose(tf.reshape(part, [batch, -1, part.shape[1] // head, head]), [0, 2, 1, 3]) for part in parts
        )
        if rotation is not None:
            q, k = _rotate(q, *rotation), _rotate(k, *rotation)
        groups = shape.heads // shape.kv_heads
        if groups > 1:
            k, v = tf.repeat(k, groups, axis=1), tf.repeat(v, groups, axis=1)
        scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) / math.sqrt(head)
        seen = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
        chances = tf.nn.softmax(tf.where(seen, scores, scores.dtype.min))
        y = tf.matmul(tf.cast(chances, self.dtype), v)
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [-1, shape.width])
        return tf.cast(self._linear(y, f"{name}out"), tf.float32)

    def _feed_forward(self, x: tf.Tensor, name: str) -> tf.Tensor:
        """x: [tokens, width]; returns the same."""
        h = self._linear(x, f"{name}up")
        if self.shape.activation == "swiglu":
            gate, value = tf.split(h, 2, axis=1)
            h = tf.nn.silu(gate) * value
        else:
            h = tf.nn.gelu(h, approximate=True)
        return tf.cast(self._linear(h, f"{name}out"), tf.float32)


def sizes(shape: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every weight's name and size."""
    width, head = shape.width, shape.width // shape.heads

    def linear(name: str, into: int, out: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (out, into)
        if shape.bias:
            yield f"{name}.bias", (out,)

    def norm(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (width,)
        if shape.norm == "layer" and shape.bias:
            yield f"{name}.bias", (width,)

    yield "tokens.weight", (shape.vocabulary, width)
    if shape.positions == "learned":
        yield "positions.weight", (shape.context, width)
    for number in range(shape.layers):
        layer = f"layers.{number}."
        yield from norm(f"{layer}norm1")
        yield from linear(f"{layer}attention.qkv", width, (shape.heads + 2 * shape.kv_heads) * head)
        yield from linear(f"{layer}attention.out", width, width)
        yield from norm(f"{layer}norm2")
        yield from linear(f"{layer}feed_forward.up", width, shape.hidden * (2 if shape.activation == "swiglu" else 1))
        yield from linear(f"{layer}feed_forward.out", shape.hidden, width)
    yield from norm("norm")
    if not shape.tied:
        yield "head.weight", (shape.vocabulary, width)


def _first_value(shape: Decoder, name: str, size: tuple[int, ...], seed: int) -> tf.Tensor:
    """As trainer/model.py draws it, from another generator: the same on all workers."""
    if name.endswith("bias"):
        return tf.zeros(size)
    if len(size) == 1:
        return tf.ones(size)
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    deviation = 0.02 / math.sqrt(2 * shape.layers) if name.endswith("out.weight") else 0.02
    words = [int.from_bytes(digest[first : first + 4], "big", signed=True) for first in (0, 4)]
    return tf.random.stateless_normal(size, words, stddev=deviation)


def _rotations(shape: Decoder, time: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Cosine and sine of rotary positions, each [time, head], as trainer/transformer.py has them."""
    head = shape.width // shape.heads
    frequency = shape.rope_theta ** -(tf.range(0, head, 2, dtype=tf.float32) / head)
    if shape.rope_scaling is not None:
        factor, low, high, trained = shape.rope_scaling
        turns = trained * frequency / (2 * math.pi)
        smooth = tf.clip_by_value((turns - low) / (high - low), 0, 1)
        frequency *= smooth + (1 - smooth) / factor
    angle = tf.tile(tf.range(time, dtype=tf.float32)[:, None] * frequency, [1, 2])
    return tf.cos(angle), tf.sin(angle)


def _rotate(x: tf.Tensor, cosine: tf.Tensor, sine: tf.Tensor) -> tf.Tensor:
    """Turns the halves of each head against each other; x: [batch, heads, time, head]."""
    first, second = tf.split(x, 2, axis=-1)
    return x * tf.cast(cosine, x.dtype) + tf.concat((-second, first), axis=-1) * tf.cast(sine, x.dtype)
