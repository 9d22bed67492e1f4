"""The test's runs by other code: Hugging Face's models, and data, order, loss, clipping, AdamW and schedule by hand.

Of the trainer it takes the first values of the weights, and the formats of its datasets; nothing of what trains.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTForImageClassification,
)

from trainer import model as models
from trainer.presets import Decoder, Vision, preset

LENGTH, BATCH, STEPS, WARMUP, SEED = 32, 8, 12, 2, 1337
RATE, FLOOR, DECAY, BETAS, CLIP = 3e-3, 0.1, 0.1, (0.9, 0.95), 1.0
"""What conftest.MODEL says, and the defaults of what it leaves out."""

WORD = (1 << 64) - 1
Batch = tuple[Tensor, Tensor]
"""Inputs and targets, where a target below 0 does not count."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Loss and norm of the gradient by step."""

    losses: dict[int, float]
    norms: dict[int, float]


def curve(name: str, dataset: Path, clip: float = CLIP, steps: int = STEPS) -> Curve:
    """The run of a preset, all of it in one process."""
    shape = preset(name)
    net, forward = classifier(shape) if isinstance(shape, Vision) else decoder(shape)
    batches = of_images(dataset, shape.image) if isinstance(shape, Vision) else of_tokens(dataset)
    means = {weight: torch.zeros_like(weight) for weight in net.parameters()}
    squares = {weight: torch.zeros_like(weight) for weight in net.parameters()}
    found = Curve({}, {})
    for step in range(1, steps + 1):
        inputs, targets = next(batches)
        net.zero_grad()
        logits = forward(inputs).flatten(0, -2)
        loss = F.cross_entropy(logits, targets.flatten().clamp(min=0), reduction="none")[targets.flatten() >= 0].mean()
        loss.backward()
        weights = [weight for weight in net.parameters() if weight.grad is not None]
        norm = math.sqrt(sum(float(weight.grad.double().pow(2).sum()) for weight in weights if weight.grad is not None))
        found.losses[step], found.norms[step] = float(loss.detach()), norm
        with torch.no_grad():
            for weight in weights:
                assert weight.grad is not None
                gradient = weight.grad * min(1.0, clip / norm)
                _step(weight, gradient, means[weight], squares[weight], step, _rate(step - 1, steps))
    return found


def _step(weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: int, rate: float) -> None:
    """AdamW as Loshchilov and Hutter 2019 have it, algorithm 2."""
    mean.copy_(BETAS[0] * mean + (1 - BETAS[0]) * gradient)
    square.copy_(BETAS[1] * square + (1 - BETAS[1]) * gradient**2)
    decayed = weight * (1 - rate * DECAY) if weight.dim() > 1 else weight
    change = (mean / (1 - BETAS[0] ** step)) / ((square / (1 - BETAS[1] ** step)).sqrt() + 1e-8)
    weight.copy_(decayed - rate * change)


def _rate(done: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    if done < WARMUP:
        return RATE * (done + 1) / WARMUP
    part = (done - WARMUP) / (steps - WARMUP)
    return RATE * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * part)) / 2)


def sample(position: int, size: int) -> int:
    """Which sample comes at a position: the epoch's Feistel network, in whole numbers of Python."""
    epoch, at = divmod(position, size)
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    while True:
        left, right = at >> half, at & ((1 << half) - 1)
        for turn in range(8):
            salt = _mixed(epoch * 8 + turn) ^ _mixed(SEED + 1)
            left, right = right, left ^ (_mixed(right ^ salt) & ((1 << half) - 1))
        at = left << half | right
        if at < size:
            return at


def _mixed(x: int) -> int:
    """splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & WORD
    return x ^ x >> 31


def of_tokens(dataset: Path) -> Iterator[Batch]:
    """Batches of windows of tokens."""
    index = json.loads((dataset / "index.json").read_text())
    windows: list[Any] = []
    for file in index["files"]:
        tokens = np.fromfile(dataset / file["name"], dtype=index["dtype"]).astype(np.int64)
        windows += [tokens[first : first + LENGTH + 1] for first in range(0, len(tokens) - 1, LENGTH)]
    for start in range(0, STEPS * BATCH, BATCH):
        inputs, targets = torch.zeros(BATCH, LENGTH, dtype=torch.int64), torch.full((BATCH, LENGTH), -1)
        for row in range(BATCH):
            window = torch.from_numpy(windows[sample(start + row, len(windows))])
            inputs[row, : len(window) - 1], targets[row, : len(window) - 1] = window[:-1], window[1:]
        yield inputs, targets.masked_fill(targets == index["padding"], -1)


def of_images(dataset: Path, size: int) -> Iterator[Batch]:
    """Batches of images."""
    files = json.loads((dataset / "index.json").read_text())["files"]
    for start in range(0, STEPS * BATCH, BATCH):
        inputs, targets = torch.zeros(BATCH, 3, size, size), torch.zeros(BATCH, dtype=torch.int64)
        for row in range(BATCH):
            file = files[sample(start + row, len(files))]
            with Image.open(dataset / file["name"]) as image:
                pixels = torch.from_numpy(
                    np.array(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
                )
            pixels = pixels.permute(2, 0, 1).float() / 127.5 - 1
            mirrored = np.random.default_rng((SEED, start + row)).random() < 0.5
            inputs[row], targets[row] = pixels.flip(2) if mirrored else pixels, file["class"]
        yield inputs, targets


def values(shape: Decoder | Vision) -> dict[str, Tensor]:
    """The trainer's first values by name, without rows that are not words."""
    made = models.build(shape, "none", False)
    models.fill(made, SEED, torch.device("cpu"))
    named = made.named_parameters()
    return {name: value.detach()[: models.true_size(shape, name, value.shape)[0]] for name, value in named}


def decoder(shape: Decoder) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """GPT-2 or Llama, and its logits."""
    net = gpt2(shape) if shape.positions == "learned" else llama(shape)
    return net, lambda inputs: net(input_ids=inputs, use_cache=False).logits


def gpt2(shape: Decoder) -> nn.Module:
    config = GPT2Config(
        vocab_size=shape.vocabulary, n_positions=shape.context, n_embd=shape.width, n_layer=shape.layers,
        n_head=shape.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    net, given = GPT2LMHeadModel(config), values(shape)
    state = {"transformer.wte.weight": given["tokens.weight"], "transformer.wpe.weight": given["positions.weight"]}
    state |= {f"transformer.ln_f.{part}": given[f"norm.{part}"] for part in ("weight", "bias")}
    names = {"ln_1": "norm1", "attn.c_attn": "attention.qkv", "attn.c_proj": "attention.out", "ln_2": "norm2"}
    names |= {"mlp.c_fc": "feed_forward.up", "mlp.c_proj": "feed_forward.out"}
    for layer in range(shape.layers):
        for theirs, ours in names.items():
            weight, bias = given[f"layers.{layer}.{ours}.weight"], given[f"layers.{layer}.{ours}.bias"]
            state[f"transformer.h.{layer}.{theirs}.weight"] = weight.T if weight.dim() > 1 else weight
            state[f"transformer.h.{layer}.{theirs}.bias"] = bias
    return _loaded(net, state, {"lm_head.weight"})


def llama(shape: Decoder) -> nn.Module:
    config = LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context, rms_norm_eps=shape.epsilon, tie_word_embeddings=shape.tied,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
    )  # fmt: skip
    net, given = LlamaForCausalLM(config), values(shape)
    state = {"model.embed_tokens.weight": given["tokens.weight"], "model.norm.weight": given["norm.weight"]}
    if not shape.tied:
        state["lm_head.weight"] = given["head.weight"]
    keys = shape.kv_heads * (shape.width // shape.heads)
    for layer in range(shape.layers):
        ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
        parts = given[f"{ours}.attention.qkv.weight"].split([shape.width, keys, keys])
        state |= {f"{theirs}.self_attn.{name}_proj.weight": part for name, part in zip("qkv", parts, strict=True)}
        state[f"{theirs}.self_attn.o_proj.weight"] = given[f"{ours}.attention.out.weight"]
        gate, up = given[f"{ours}.feed_forward.up.weight"].chunk(2)
        state |= {f"{theirs}.mlp.gate_proj.weight": gate, f"{theirs}.mlp.up_proj.weight": up}
        state[f"{theirs}.mlp.down_proj.weight"] = given[f"{ours}.feed_forward.out.weight"]
        state[f"{theirs}.input_layernorm.weight"] = given[f"{ours}.norm1.weight"]
        state[f"{theirs}.post_attention_layernorm.weight"] = given[f"{ours}.norm2.weight"]
    return _loaded(net, state, {"lm_head.weight"} if shape.tied else set())


def classifier(shape: Vision) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """ViT without the token of the class: the mean of its patches is classified."""
    config = ViTConfig(
        hidden_size=shape.width, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        intermediate_size=shape.hidden, image_size=shape.image, patch_size=shape.patch, num_labels=shape.classes,
        layer_norm_eps=shape.epsilon, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    net, given = ViTForImageClassification(config), values(shape)
    state = {"vit.embeddings.patch_embeddings.projection.bias": given["patches.bias"]}
    patches = given["patches.weight"].view(shape.width, 3, shape.patch, shape.patch)
    state["vit.embeddings.patch_embeddings.projection.weight"] = patches
    positions = torch.cat([torch.zeros(1, shape.width), given["positions.weight"]])
    state["vit.embeddings.position_embeddings"] = positions[None]
    for part in ("weight", "bias"):
        state[f"vit.layernorm.{part}"], state[f"classifier.{part}"] = given[f"norm.{part}"], given[f"head.{part}"]
        for layer in range(shape.layers):
            ours, theirs = f"layers.{layer}", f"vit.layers.{layer}"
            for name, whole in zip("qkv", given[f"{ours}.qkv.{part}"].chunk(3), strict=True):
                state[f"{theirs}.attention.{name}_proj.{part}"] = whole
            names = {"attention.o_proj": "attention_out", "mlp.fc1": "up", "mlp.fc2": "out"}
            names |= {"layernorm_before": "norm1", "layernorm_after": "norm2"}
            state |= {f"{theirs}.{name}.{part}": given[f"{ours}.{mine}.{part}"] for name, mine in names.items()}
    vit = _loaded(net, state, {"vit.embeddings.cls_token"}).vit

    def forward(inputs: Tensor) -> Tensor:
        x = vit.embeddings.patch_embeddings(inputs) + vit.embeddings.position_embeddings[:, 1:]
        for layer in vit.layers:
            x = layer(x)
        logits: Tensor = net.classifier(vit.layernorm(x).mean(dim=1))
        return logits

    return net, forward


def _loaded(net: Any, state: dict[str, Tensor], without: set[str]) -> Any:
    """The model with these weights, and no others but `without`."""
    missing, unknown = net.load_state_dict({name: value.clone() for name, value in state.items()}, strict=False)
    assert (set(missing), unknown) == (without, [])
    return net
