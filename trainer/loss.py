"""The output matrix and its loss, without the logits of all tokens at once.

Whole logits take 12 bytes each at their peak: fp32, their log-softmax and a gradient. At 16,384 tokens and 128,256
words that is 25 GB. Here a slice of tokens at a time goes through the matrix, the softmax and both gradients: nothing
is computed twice, and what is kept for the backward pass has the size of the inputs and of the matrix.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainer.data import IGNORED

SLICE = 1 << 27
"""Logits that are in memory at once; 512 MiB of them in fp32."""


class Head(nn.Linear):
    """Hidden states to the sum of the losses of their targets. Rows beyond the vocabulary are not words."""

    def __init__(self, width: int, rows: int, vocabulary: int) -> None:
        super().__init__(width, rows, bias=False)
        self.vocabulary = vocabulary

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]
        """x: [batch, time, width], targets: [batch, time]; returns the summed loss of targets that are not IGNORED."""
        x, targets, kind = x.flatten(0, 1), targets.flatten(), x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        if dtype == torch.float16:  # has no room for gradients that the loss scale has not been applied to
            logits = F.linear(x, self.weight).float()[:, : self.vocabulary]
            return F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
        loss: Tensor = SlicedLoss.apply(x.to(dtype), self.weight.to(dtype), targets, self.vocabulary)
        return loss


class SlicedLoss(torch.autograd.Function):
    """The summed cross-entropy of x times the matrix; both gradients are made on the way forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, vocabulary: int) -> Tensor:
        """x: [tokens, width], weight: [rows, width], targets: [tokens]; returns a scalar in fp32."""
        tokens = max(1, SLICE // len(weight))
        total = torch.zeros((), device=x.device)
        of_x = torch.empty_like(x)
        of_weight = torch.zeros(weight.shape, device=x.device)
        for part, wanted, into in zip(x.split(tokens), targets.split(tokens), of_x.split(tokens), strict=True):
            logits = (part @ weight.T).float()
            logits[:, vocabulary:] = -torch.inf
            words = wanted.clamp(min=0)[:, None]
            valid = (wanted != IGNORED).float()[:, None]
            logs = logits.log_softmax(dim=1)
            del logits
            total -= (logs.gather(1, words) * valid).sum()
            gradient = logs.exp_().scatter_add_(1, words, -torch.ones_like(valid)).mul_(valid).to(x.dtype)
            torch.mm(gradient, weight, out=into)
            of_weight += gradient.T @ part
        ctx.gradients, ctx.dtype = (of_x, of_weight), weight.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_x, of_weight = ctx.gradients
        del ctx.gradients
        return of_x.mul_(factor), of_weight.mul_(factor).to(ctx.dtype), None, None
