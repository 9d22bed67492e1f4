"""A decoder-only transformer: GPT-2, GPT-3 and Llama by shape alone."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.loss import Head
from trainer.presets import Decoder


def norm(shape: Decoder) -> nn.Module:
    if shape.norm == "rms":
        return nn.RMSNorm(shape.width, eps=shape.epsilon)
    return nn.LayerNorm(shape.width, eps=shape.epsilon, bias=shape.bias)


class Attention(nn.Module):
    """Causal attention, `kv_heads` of keys and values shared by groups of query heads."""

    def __init__(self, shape: Decoder) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = shape.heads, shape.kv_heads, shape.width // shape.heads
        self.qkv = nn.Linear(shape.width, (shape.heads + 2 * shape.kv_heads) * self.head, bias=shape.bias)
        self.out = nn.Linear(shape.width, shape.width, bias=shape.bias)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """x: [batch, time, width], rotation: cos and sin of [time, head]; returns [batch, time, width]."""
        batch, time, width = x.shape
        sizes = [self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.head]
        q, k, v = (part.view(batch, time, -1, self.head).transpose(1, 2) for part in self.qkv(x).split(sizes, dim=2))
        if rotation is not None:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class FeedForward(nn.Module):
    """GELU (tanh form, as GPT-2's) or SwiGLU, gate and value in one matrix."""

    def __init__(self, shape: Decoder) -> None:
        super().__init__()
        self.gated = shape.activation == "swiglu"
        self.up = nn.Linear(shape.width, shape.hidden * (2 if self.gated else 1), bias=shape.bias)
        self.out = nn.Linear(shape.hidden, shape.width, bias=shape.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, time, width]; returns the same."""
        h = self.up(x)
        if self.gated:
            gate, value = h.chunk(2, dim=-1)
            return self.out(F.silu(gate) * value)
        return self.out(F.gelu(h, approximate="tanh"))


class Layer(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, shape: Decoder) -> None:
        super().__init__()
        self.norm1, self.attention = norm(shape), Attention(shape)
        self.norm2, self.feed_forward = norm(shape), FeedForward(shape)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """x: [batch, time, width]; returns the same."""
        x = x + self.attention(self.norm1(x), rotation)
        return x + self.feed_forward(self.norm2(x))


class Transformer(nn.Module):
    """Tokens to the sum of their losses."""

    def __init__(self, shape: Decoder) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.rows, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width) if shape.positions == "learned" else None
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = norm(shape)
        self.head = Head(shape.width, shape.rows, shape.vocabulary)
        self.tie()

    def tie(self) -> None:
        """Makes embedding and head one parameter where the shape says so. What gives modules new parameters, as
        `to_empty` does, gives them one each, so it is asked for again after that."""
        if self.shape.tied and self.head.weight is not self.tokens.weight:
            self.head.weight = self.tokens.weight

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """inputs, targets: [batch, time] token ids; returns the summed loss of all targets that are not IGNORED."""
        time = inputs.shape[1]
        x = self.tokens(inputs)
        rotation = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(time, device=inputs.device))
        else:
            rotation = rotations(self.shape, time, inputs.device)
        for layer in self.layers:
            x = layer(x, rotation)
        return self.head(self.norm(x), targets)


def rotations(shape: Decoder, time: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of rotary positions, each [time, head] (Su et al. 2021; scaled as Llama 3.1 does)."""
    head = shape.width // shape.heads
    frequency = shape.rope_theta ** -(torch.arange(0, head, 2, device=device).float() / head)
    if shape.rope_scaling is not None:
        factor, low, high, trained = shape.rope_scaling
        turns = trained * frequency / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (smooth + (1 - smooth) / factor)
    angle = torch.outer(torch.arange(time, device=device).float(), frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turns the halves of each head against each other; x: [batch, heads, time, head]."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine.to(x.dtype) + torch.cat((-second, first), dim=-1) * sine.to(x.dtype)
