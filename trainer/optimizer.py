"""AdamW, its gradient's norm, and the scale that keeps fp16 gradients above zero."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from trainer.config import Config
from trainer.errors import NonFiniteError

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices, which are decayed, and vectors, which are not."""
    matrices: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    for parameter in model.parameters():
        shape = getattr(parameter, "ds_shape", parameter.shape)  # what ZeRO-3 has partitioned looks like a vector
        (matrices if len(shape) >= 2 else vectors).append(parameter)
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def adamw(model: nn.Module, config: Config) -> AdamW:
    """The optimizer, with its state made at once, so that a checkpoint has a place to be read into."""
    made = AdamW(
        groups(model, config.weight_decay),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        fused=True,
    )
    for parameter in model.parameters():
        made.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return made


def gradient_norm(model: nn.Module) -> Tensor:
    """Length of the whole gradient, over all shards."""
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None], foreach=True)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


@torch.no_grad()
def multiply_gradients(model: nn.Module, factor: float) -> None:
    """Multiplies the whole gradient."""
    torch._foreach_mul_([p.grad for p in model.parameters() if p.grad is not None], factor)


@dataclass(slots=True)
class LossScale:
    """Factor of an fp16 loss; halved where a gradient overflows, doubled after many good steps."""

    value: float
    good: int = 0
    patience: int = 2000

    def after(self, overflow: bool) -> None:
        """Learns from one step. Raises NonFiniteError where no scale helps."""
        if overflow:
            self.value, self.good = self.value / 2, 0
            if self.value < 1:
                raise NonFiniteError("the gradient is not finite at any loss scale")
            return
        self.good += 1
        if self.good % self.patience == 0:
            self.value *= 2


def loss_scale(precision: str) -> LossScale:
    """Where a run starts."""
    return LossScale(2.0**16 if precision == "fp16" else 1.0)


def update(model: nn.Module, optimizer: AdamW, scale: LossScale, fp16: bool, clipping: float) -> float | None:
    """One step on the gradient of the scaled loss; returns the norm before clipping, None where fp16 overflowed.

    Raises NonFiniteError before the weights are touched.
    """
    norm = float(gradient_norm(model)) / scale.value
    if math.isfinite(norm):
        factor = min(1.0, clipping / (norm + 1e-6)) if clipping else 1.0
        if factor / scale.value != 1.0:
            multiply_gradients(model, factor / scale.value)
        optimizer.step()
    elif not fp16:
        raise NonFiniteError(f"the norm of the gradient is {norm}; the weights are those of the step before")
    if fp16:
        scale.after(overflow=not math.isfinite(norm))
    optimizer.zero_grad(set_to_none=True)
    return norm if math.isfinite(norm) else None
