"""DeepSpeed ZeRO, stages 1 to 3, with offload. Its checkpoints are those of ddp and fsdp."""

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from trainer import model as models
from trainer.config import Config
from trainer.data import Share
from trainer.errors import ConfigError, NonFiniteError
from trainer.optimizer import groups
from trainer.parallel import MOMENTS, State, shard_of
from trainer.presets import Shape

TAKEN = ("optimizer", "scheduler")
"""Keys of a DeepSpeed file that the trainer has keys of its own for."""

INFERENCE_KERNEL = "deepspeed_shm_comm"
"""What DeepSpeed compiles for a minute on CPUs, if there is a compiler, and no training uses."""


def policy(config: Config, share: Share) -> dict[str, Any]:
    """The DeepSpeed config: the file's ZeRO policy, and batch, precision and clipping from the trainer's keys.

    Raises ConfigError where the file says otherwise; "auto" and silence are filled in.
    """
    policy: dict[str, Any] = {"zero_optimization": {"stage": config.deepspeed.stage}}
    path = config.deepspeed.config
    if path:
        try:
            policy = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"deepspeed.config {path}: {error}") from error
    for key in TAKEN:
        if key in policy:
            raise ConfigError(f"deepspeed.config {path}: {key} belongs to the trainer's own keys; remove it there")
    filled = {
        "train_batch_size": share.global_batch,
        "train_micro_batch_size_per_gpu": share.micro,
        "gradient_accumulation_steps": share.accumulation,
        "gradient_clipping": config.gradient_clipping,
    }
    for key, value in filled.items():
        if policy.get(key, "auto") not in ("auto", value):
            raise ConfigError(f"deepspeed.config {path}: {key} is {policy[key]}, but this run's is {value}")
    for name in ("bf16", "fp16"):
        enabled = policy.setdefault(name, {}).get("enabled", "auto")
        if enabled not in ("auto", config.precision == name):
            raise ConfigError(
                f"deepspeed.config {path}: {name}.enabled is {enabled}, but precision is {config.precision}"
            )
        policy[name]["enabled"] = config.precision == name
    return policy | filled | {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}


class Zero:
    """A DeepSpeed engine around AdamW."""

    def __init__(self, config: Config, shape: Shape, device: torch.device, share: Share) -> None:
        os.environ.setdefault("DS_ACCELERATOR", device.type)
        import deepspeed

        self.deepspeed, self.share = deepspeed, share
        self.fp16 = config.precision == "fp16"
        plan = policy(config, share)
        self.stage = plan["zero_optimization"].get("stage", 0)
        if self.stage not in (1, 2, 3):
            raise ConfigError(f"zero_optimization.stage is 1, 2 or 3, not {self.stage}; parallelism=ddp is stage 0")
        deepspeed.ops.__compatible_ops__[INFERENCE_KERNEL] = False
        meta = models.bare(shape)
        self.parameters = models.parameters(meta)
        deepspeed.init_distributed(dist_backend=deepspeed.get_accelerator().communication_backend_name(), verbose=False)
        partitioned = deepspeed.zero.Init(config_dict_or_path=plan) if self.stage == 3 else nullcontext()
        with partitioned:
            self.model = models.bare(shape, str(device))
        # not before: zero.Init asks each new module for attributes, which a wrapper without its layer has not
        self.model = models.prepared(self.model, config.activation_checkpointing, config.compile)
        for name, parameter in self.model.named_parameters():
            with self._whole(parameter, modified=True):
                parameter.data.copy_(models.first_value(self.model, name, parameter.shape, config.seed, device))
        optimizer = AdamW(
            groups(self.model, config.weight_decay),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
        )
        self.engine, *_ = deepspeed.initialize(
            model=self.model, optimizer=optimizer, config=plan, dist_init_required=False
        )
        self._make_moments()

    def pass_through(self, inputs: Tensor, targets: Tensor, weight: Tensor, last: bool) -> Tensor:
        self.engine.set_gradient_accumulation_boundary(last)
        if inputs.is_floating_point():
            inputs = inputs.to(next(self.model.parameters()).dtype)
        loss: Tensor = self.engine(inputs, targets)
        # DeepSpeed divides by the passes, and takes the mean of the ranks' gradients
        self.engine.backward(loss * (weight * (self.share.world * self.share.accumulation)))
        return loss.detach()

    def update(self, rate: float) -> float | None:
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        self.engine.step()
        if self.engine.optimizer.overflow if self.fp16 else False:
            return None
        norm = float(self.engine.get_global_grad_norm())
        if not math.isfinite(norm):
            raise NonFiniteError(f"the norm of the gradient is {norm}")
        return norm

    def state(self) -> State:
        mesh = init_device_mesh("cpu", (self.share.world,))
        return {name: shard_of(tensor.clone(), mesh) for name, tensor in self._tensors()}

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of a checkpoint, whole on every rank, one after the other."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        for name, parameter in self._named():
            yield f"model.{name}", safe_get_full_fp32_param(parameter).view(self._shape(parameter))
            for kind, moment in MOMENTS.items():
                yield f"{kind}.{name}", safe_get_full_optimizer_state(parameter, moment).view(self._shape(parameter))

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        for moments in self.engine.optimizer.optimizer.state.values():
            moments["step"].fill_(updates)
        mesh = init_device_mesh("cpu", (self.share.world,))
        state = {
            f"{kind}.{name}": shard_of(torch.zeros(self._shape(parameter)), mesh)
            for name, parameter in self._named()
            for kind in ("model", *MOMENTS)
        }
        read(state)
        for name, parameter in self._named():
            for kind, moment in {"model": None, **MOMENTS}.items():
                held = state[f"{kind}.{name}"]
                whole = held.full_tensor() if isinstance(held, DTensor) else held
                self._put(parameter, whole.to(self.engine.device), moment)

    def _put(self, parameter: Tensor, value: Tensor, moment: str | None) -> None:
        """Writes a whole tensor into the partitions: a moment, or the weight, in fp32 and in the passes' precision."""
        from deepspeed.utils import (
            safe_set_full_fp32_param,
            safe_set_full_optimizer_state,
            safe_set_local_fp32_param,
            safe_set_local_optimizer_state,
        )

        if moment is None:
            with self._whole(parameter, modified=True):
                parameter.data.copy_(value)
        if self.stage == 3:  # safe_set_full_* fail where the last partition is filled up
            size = -(-value.numel() // self.share.world)
            local = torch.nn.functional.pad(value.flatten(), (0, size * self.share.world - value.numel()))
            local = local.narrow(0, size * self.share.rank, size)
            if moment is None:
                safe_set_local_fp32_param(parameter, local)
            else:
                safe_set_local_optimizer_state(parameter, local, moment)
        elif moment is None:
            safe_set_full_fp32_param(parameter, value)
        else:
            safe_set_full_optimizer_state(parameter, value, moment)

    def _make_moments(self) -> None:
        """AdamW's state, which it would make in its first step, so that there is a place to restore it to."""
        wrapped = self.engine.optimizer
        flat = wrapped.fp32_partitioned_groups_flat if self.stage == 3 else wrapped.single_partition_of_fp32_groups
        for partition in flat:
            wrapped.optimizer.state[partition] = {
                "step": torch.tensor(0.0),
                **{moment: torch.zeros_like(partition.data) for moment in MOMENTS.values()},
            }
        if self.stage < 3:
            wrapped._lazy_init_hp_params_optimizer_state()

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.model.named_parameters():
            yield models.plain(name), parameter

    def _shape(self, parameter: Tensor) -> torch.Size:
        shape: torch.Size = parameter.ds_shape if self.stage == 3 else parameter.shape  # type: ignore[attr-defined]
        return shape

    def _whole(self, parameter: Tensor, modified: bool) -> AbstractContextManager[object]:
        """Makes a parameter of stage 3 whole for a while."""
        if self.stage != 3:
            return nullcontext()
        gathered: AbstractContextManager[object] = self.deepspeed.zero.GatheredParameters(
            [parameter], modifier_rank=0 if modified else None
        )
        return gathered

    def numbers(self) -> dict[str, float]:
        return {"loss_scale": float(self.engine.optimizer.loss_scaler.cur_scale)} if self.fp16 else {}

    def set_numbers(self, numbers: dict[str, float]) -> None:
        if self.fp16 and "loss_scale" in numbers:
            self.engine.optimizer.loss_scaler.cur_scale = numbers["loss_scale"]
