"""AdamW, its gradient's norm, and the scale that keeps fp16 gradients above zero."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from trainer.config import Config
from trainer.errors import NonFiniteError

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

MOMENTS = {"mean": "exp_avg", "square": "exp_avg_sq"}
"""AdamW's state in a checkpoint, and what torch calls it."""


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
            **{moment: torch.zeros_like(parameter) for moment in MOMENTS.values()},
        }
    return made


def gradient_norm(model: nn.Module) -> Tensor:
    """Length of the whole gradient, over all shards."""
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None], foreach=True)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


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


@torch.no_grad()
def update(model: nn.Module, optimizer: AdamW, scale: LossScale, fp16: bool, clipping: float, loss: Tensor) -> Tensor:
    """One step on the gradient of the scaled loss; returns the norm before clipping, a scalar on the gradient's device.

    Where the loss or the norm is not finite, nothing changes: the device itself leaves the step out, so the host need
    not wait to know. Under fp16 it does wait, for its next loss scale.
    """
    norm = gradient_norm(model) / scale.value
    finite = norm.isfinite() & loss.isfinite().to(norm.device)
    factor = (clipping / (norm + 1e-6)).clamp(max=1.0) if clipping else torch.ones_like(norm)
    # As torch.amp.GradScaler tells a fused optimizer what to divide gradients by, and whether to leave the step out
    optimizer.grad_scale = scale.value / factor  # type: ignore[attr-defined]
    optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if fp16:
        scale.after(overflow=not bool(finite))
    return norm
