"""A model from a shape: built without memory, checkpointed and compiled layer by layer, filled from a seed."""

import hashlib
import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from trainer.presets import Decoder, Shape
from trainer.transformer import Transformer
from trainer.vision import VisionTransformer

Model = Transformer | VisionTransformer
KEPT = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
}
"""What selective checkpointing keeps: the results that cost most to compute again."""


def build(shape: Shape, activation_checkpointing: str, compiled: bool, device: str = "meta") -> Model:
    """The module of a shape; on `meta` it takes no memory."""
    with torch.device(device):
        model = Transformer(shape) if isinstance(shape, Decoder) else VisionTransformer(shape)
    return wrapped(model, activation_checkpointing, compiled)


def wrapped(model: Model, activation_checkpointing: str, compiled: bool, reentrant: bool = False) -> Model:
    """The model with each layer computed again in the backward pass as asked, and compiled if asked.

    `reentrant` is for weights that are elsewhere between the passes, as under ZeRO-3: what is computed again is not
    compared then with tensors that were there the first time.
    """
    way = CheckpointImpl.REENTRANT if reentrant else CheckpointImpl.NO_REENTRANT
    for number, layer in enumerate(model.layers):
        if activation_checkpointing == "full":
            layer = checkpoint_wrapper(layer, checkpoint_impl=way)
        if activation_checkpointing == "selective":
            layer = checkpoint_wrapper(layer, context_fn=lambda: create_selective_checkpoint_contexts(_policy))
        if compiled:
            layer.compile()
        model.layers[number] = layer
    return model


def _policy(_context: object, operation: object, *_arguments: object, **_named: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operation in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


@torch.no_grad()
def fill(model: Model, seed: int, device: torch.device) -> None:
    """Gives a model on `meta` its memory and first values: the same whatever the ranks and the sharding are."""
    model.to_empty(device=device)
    if isinstance(model, Transformer):
        model.tie()
    for name, parameter in model.named_parameters():
        value = first_value(model, name, parameter.shape, seed, device)
        if isinstance(parameter, DTensor):
            value = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.copy_(value)


def first_value(model: Model, name: str, shape: torch.Size, seed: int, device: torch.device) -> Tensor:
    """First value of a whole parameter: each has a random stream of its own, by name.

    Matrices are drawn as GPT-2's are, with a smaller deviation where a layer ends in a residual. Rows that are no words
    are zero, and stay so: they get no gradient.
    """
    name = plain(name)
    if name.endswith("bias"):
        return torch.zeros(shape, device=device)
    if len(shape) == 1:
        return torch.ones(shape, device=device)
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    generator = torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "big"))
    deviation = 0.02 / math.sqrt(2 * model.shape.layers) if name.endswith("out.weight") else 0.02
    true = true_size(model.shape, name, shape)
    drawn = torch.empty(true, device=device).normal_(0.0, deviation, generator=generator)
    return F.pad(drawn, (0, 0, 0, shape[0] - true[0]))


def true_size(shape: Shape, name: str, size: torch.Size) -> torch.Size:
    """The size of a parameter as a checkpoint has it: `size` without the rows that fill the vocabulary up."""
    if isinstance(shape, Decoder) and plain(name) in ("tokens.weight", "head.weight"):
        return torch.Size((shape.vocabulary, *size[1:]))
    return size


def plain(name: str) -> str:
    """A parameter's name without what wrappers put into it."""
    for wrapper in ("_checkpoint_wrapped_module.", "_orig_mod."):
        name = name.replace(wrapper, "")
    return name.removeprefix("module.")
