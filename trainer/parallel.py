"""One engine for all ways in which ranks share a model: forward and backward, a step, and the state of a run."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from trainer import model as models
from trainer.config import Config
from trainer.data import Share
from trainer.optimizer import DTYPES, adamw, loss_scale, update
from trainer.presets import Shape

MOMENTS = {"mean": "exp_avg", "square": "exp_avg_sq"}
"""AdamW's state in a checkpoint, and what torch calls it."""

State = dict[str, Tensor]
"""`model.NAME`, `mean.NAME` and `square.NAME` of every parameter, each whole or this rank's shard of it."""


class Engine(Protocol):
    """A model with its optimizer, on all ranks."""

    parameters: int
    """Weights of the whole model."""

    def pass_through(self, inputs: Tensor, targets: Tensor, weight: Tensor, last: bool) -> Tensor:
        """Forward and backward of one pass; returns its summed loss.

        `weight` is what a summed loss counts in the gradient: one over the valid targets of all passes and ranks.
        """

    def update(self, rate: float) -> float | None:
        """The optimizer's step; returns the gradient's norm, None where it was skipped."""

    def state(self) -> State:
        """Tensors to save: shards, so that no rank copies the whole model."""

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        """Has `read` fill the tensors of a state, and takes them over."""

    def numbers(self) -> dict[str, float]:
        """What else a checkpoint holds."""

    def set_numbers(self, numbers: dict[str, float]) -> None:
        """Takes over what `numbers` gave."""


class Torch:
    """PyTorch's own: a copy of the model on every rank (ddp), or FSDP2's shards of it (fsdp)."""

    def __init__(self, config: Config, shape: Shape, device: torch.device, share: Share) -> None:
        self.config, self.device, self.share = config, device, share
        self.fp16 = config.precision == "fp16"
        self.model = models.build(shape, config.activation_checkpointing, config.compile)
        self.parameters = models.parameters(self.model)
        self.sharded = config.parallelism == "fsdp"
        home = torch.device("cpu") if self.sharded and config.fsdp.offload else device
        if self.sharded:
            shard(self.model, config, init_device_mesh(device.type, (share.world,)))
        models.fill(self.model, config.seed, home)
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

    def update(self, rate: float) -> float | None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return update(self.model, self.optimizer, self.scale, self.fp16, self.config.gradient_clipping)

    def state(self) -> State:
        mesh = init_device_mesh("cpu", (self.share.world,))
        return {name: shard_of(tensor, mesh) for name, tensor in self._tensors().items()}

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        read(self._tensors())
        for state in self.optimizer.state.values():
            state["step"].fill_(updates)

    def _tensors(self) -> State:
        tensors: State = {}
        for name, parameter in self.model.named_parameters():
            name, state = models.plain(name), self.optimizer.state[parameter]
            tensors[f"model.{name}"] = parameter.data
            tensors |= {f"{kind}.{name}": state[moment] for kind, moment in MOMENTS.items()}
        return tensors

    def numbers(self) -> dict[str, float]:
        return {"loss_scale": self.scale.value, "loss_scale_good": self.scale.good}

    def set_numbers(self, numbers: dict[str, float]) -> None:
        if self.fp16 and numbers.get("loss_scale", 1.0) > 1.0:
            self.scale.value, self.scale.good = numbers["loss_scale"], int(numbers["loss_scale_good"])


def shard(model: models.Model, config: Config, mesh: DeviceMesh) -> None:
    """FSDP2: every layer on its own, and what is around the layers together."""
    low = None if config.precision == "fp32" else DTYPES[config.precision]
    options = {
        "mesh": mesh,
        "reshard_after_forward": config.fsdp.reshard_after_forward,
        "mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32),
        "offload_policy": CPUOffloadPolicy() if config.fsdp.offload else OffloadPolicy(),
    }
    for layer in model.layers:
        fully_shard(layer, **options)  # type: ignore[call-overload]
    fully_shard(model, **options)  # type: ignore[call-overload]


def shard_of(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    """This rank's rows of a tensor that every rank has whole, as a shard of a distributed tensor."""
    if isinstance(tensor, DTensor) or mesh.size() == 1:
        return tensor
    rows = list(tensor.chunk(mesh.size()))
    mine = rows[mesh.get_rank()] if mesh.get_rank() < len(rows) else tensor[:0]
    return DTensor.from_local(mine, mesh, [Shard(0)], run_check=False, shape=tensor.shape, stride=tensor.stride())


def engine(config: Config, shape: Shape, device: torch.device, share: Share) -> Engine:
    """The engine that config.parallelism names."""
    if config.parallelism == "deepspeed":
        from trainer.zero import Zero  # DeepSpeed takes seconds to import, and only its users have it

        return Zero(config, shape, device, share)
    return Torch(config, shape, device, share)
