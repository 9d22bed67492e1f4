"""The sliced loss of the output matrix is PyTorch's own of whole logits, and takes the memory of a slice."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trainer import loss as sliced
from trainer.loss import Head

pytestmark = pytest.mark.torch

TOKENS, WIDTH, ROWS, WORDS = 48, 16, 64, 50


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that an operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        if isinstance(given, Tensor):
            self.elements = max(self.elements, given.numel())
        return given


def inputs(dtype: torch.dtype) -> tuple[Head, Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    head = Head(WIDTH, ROWS, WORDS).to(dtype)
    targets = torch.randint(0, WORDS, (4, TOKENS // 4), generator=source)
    targets[0, :5] = -100
    return head, torch.randn(4, TOKENS // 4, WIDTH, generator=source).to(dtype).requires_grad_(), targets


def results(loss: Tensor, head: Head, x: Tensor) -> tuple[Tensor, ...]:
    """The loss and both gradients, of a loss that is scaled as a mean over a step is."""
    return loss.detach(), *torch.autograd.grad(loss * 0.01, (x, head.weight))


@pytest.mark.parametrize("tokens_a_slice", [1, 7, 48, 1000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_loss_and_gradients_are_those_of_whole_logits(
    monkeypatch: pytest.MonkeyPatch, tokens_a_slice: int, dtype: torch.dtype, tolerance: float
) -> None:
    monkeypatch.setattr(sliced, "SLICE", tokens_a_slice * ROWS)
    head, x, targets = inputs(dtype)
    logits = F.linear(x, head.weight)[..., :WORDS].float()

    ours = results(head(x, targets), head, x)
    theirs = results(F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"), head, x)

    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.float(), other.float(), rtol=tolerance, atol=tolerance * float(other.abs().max()))
    assert not ours[2][WORDS:].any()


def test_no_more_logits_than_a_slice_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced, "SLICE", 4 * ROWS)
    head, x, targets = inputs(torch.float32)

    with Largest() as seen:
        head(x, targets).backward()

    assert seen.elements == ROWS * WIDTH  # the matrix's gradient; whole logits are three times that
