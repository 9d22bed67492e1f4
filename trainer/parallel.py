"""One engine for all ways in which ranks share a model: forward and backward, a step, and the state of a run."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from trainer import model as models
from trainer.checkpoint_pieces import State, of_rows
from trainer.config import Config
from trainer.data import Share
from trainer.errors import ConfigError
from trainer.optimizer import DTYPES, MOMENTS, adamw, loss_scale, update
from trainer.presets import Shape, weights
from trainer.transformer import Transformer


class Engine(Protocol):
    """A model with its optimizer, on all ranks."""

    offloads: bool
    """Whether the optimizer steps on the host."""

    def pass_through(self, inputs: Tensor, targets: Tensor, weight: Tensor, last: bool) -> Tensor:
        """Forward and backward of one pass; returns its summed loss.

        `weight` is what a summed loss counts in the gradient: one over the valid targets of all passes and ranks.
        """

    def update(self, rate: float, loss: Tensor) -> Tensor:
        """The optimizer's step; returns the gradient's norm, a scalar. Where that or `loss`, the sum over all ranks, is
        not finite the weights stay as they are."""

    def state(self) -> State:
        """What the optimizer holds: this rank's pieces, where they lie in memory."""

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        """Has `read` fill the tensors of a state, and takes them over."""

    def numbers(self) -> dict[str, float]:
        """What else a checkpoint holds."""

    def set_numbers(self, numbers: dict[str, float]) -> None:
        """Takes over what `numbers` gave."""


class Torch:
    """PyTorch's own: a copy of the model on every rank (ddp), or FSDP2's shards of it (fsdp)."""

    def __init__(self, config: Config, shape: Shape, device: torch.device, share: Share) -> None:
        self.config, self.shape, self.device, self.share = config, shape, device, share
        self.fp16 = config.precision == "fp16"
        self.model = models.build(shape, config.activation_checkpointing, config.compile)
        self.sharded = config.parallelism == "fsdp"
        self.offloads = self.sharded and config.fsdp.offload
        if self.sharded:
            shard(self.model, config, init_device_mesh(device.type, (share.world,)))
        models.fill(self.model, config.seed, torch.device("cpu") if self.offloads else device)
        self.optimizer = adamw(self.model, config)
        self.scale = loss_scale(config.precision)
        self.runner: nn.Module = self.model
        if not self.sharded and share.world > 1:
            self.runner = DistributedDataParallel(
                self.model,
                device_ids=[device] if device.type == "cuda" else None,
                gradient_as_bucket_view=True,
                init_sync=False,
            )

    def pass_through(self, inputs: Tensor, targets: Tensor, weight: Tensor, last: bool) -> Tensor:
        with self._local_unless(last), self._precision():
            loss: Tensor = self.runner(inputs, targets)
            # ddp and fsdp take the mean of the ranks' gradients
            (loss * (weight * (self.share.world * self.scale.value))).backward()
        return loss.detach()

    def _local_unless(self, last: bool) -> AbstractContextManager[None]:
        """ddp reduces gradients in the last pass alone; fsdp in each, for it has no room for whole gradients."""
        if isinstance(self.runner, DistributedDataParallel) and not last:
            return self.runner.no_sync()
        return nullcontext()

    def _precision(self) -> AbstractContextManager[object]:
        if self.sharded or self.config.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.config.precision])

    def update(self, rate: float, loss: Tensor) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return update(self.model, self.optimizer, self.scale, self.fp16, self.config.gradient_clipping, loss)

    def state(self) -> State:
        return self._state(self.share.rank, self.share.world)

    def _state(self, rank: int, world: int) -> State:
        names = {parameter: models.plain(name) for name, parameter in self.model.named_parameters()}
        state: State = {}
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                name, moments = names[parameter], self.optimizer.state[parameter]
                size = models.true_size(self.shape, name, parameter.shape)
                state[f"model.{name}"] = of_rows(parameter.data, size, rank, world)
                state |= {f"{kind}.{name}": of_rows(moments[each], size, rank, world) for kind, each in MOMENTS.items()}
        return state

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        read(self.state() if self.sharded else self._state(0, 1))  # under ddp every rank needs all of it
        for state in self.optimizer.state.values():
            state["step"].fill_(updates)

    def numbers(self) -> dict[str, float]:
        return {"loss_scale": self.scale.value, "loss_scale_good": self.scale.good}

    def set_numbers(self, numbers: dict[str, float]) -> None:
        if self.fp16 and numbers.get("loss_scale", 1.0) > 1.0:
            self.scale.value, self.scale.good = numbers["loss_scale"], int(numbers["loss_scale_good"])


def shard(model: models.Model, config: Config, mesh: DeviceMesh) -> None:
    """FSDP2: every layer on its own, so the embedding, and the last norm with the head, which stay whole from forward
    to backward pass, since one follows the other at once. A head that is the embedding is in one unit with it."""
    low = None if config.precision == "fp32" else DTYPES[config.precision]
    options = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32),
        "offload_policy": CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda")
        if config.fsdp.offload
        else OffloadPolicy(),
    }
    again = config.fsdp.reshard_after_forward
    last: list[nn.Module] = [model.norm, model.head]
    if isinstance(model, Transformer):
        if model.shape.tied:
            last = [model.tokens, *last]
        else:
            fully_shard(model.tokens, reshard_after_forward=again, **options)  # type: ignore[call-overload]
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=again, **options)  # type: ignore[call-overload]
    fully_shard(last, reshard_after_forward=False, **options)  # type: ignore[call-overload]
    fully_shard(model, reshard_after_forward=False, **options)  # type: ignore[call-overload]


def engine(config: Config, shape: Shape, device: torch.device, share: Share) -> Engine:
    """The engine that config.parallelism names. Raises ConfigError where its optimizer does not hold the weights of the
    model, each once: it would train another model than the one that was asked for."""
    if config.parallelism == "deepspeed":
        from trainer.zero import Zero  # DeepSpeed takes seconds to import, and only its users have it

        made: Engine = Zero(config, shape, device, share)
    else:
        made = Torch(config, shape, device, share)
    held = sum(len(each.values) for name, each in made.state().items() if name.startswith("model."))
    total = torch.tensor(held, device=device)
    dist.all_reduce(total)
    if int(total) != weights(shape):
        raise ConfigError(f"the optimizer holds {int(total):,} weights, but {config.model} has {weights(shape):,}")
    return made
