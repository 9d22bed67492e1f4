"""DeepSpeed ZeRO, stages 1 to 3, with offload. Its checkpoints are those of ddp and fsdp."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from trainer import model as models
from trainer.checkpoint_pieces import State, piece
from trainer.config import Config
from trainer.data import Share
from trainer.errors import ConfigError
from trainer.optimizer import MOMENTS, groups
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


def offload(plan: Mapping[str, Any]) -> bool:
    """Whether a policy has the optimizer step on the host. Raises ConfigError for what no checkpoint is made of."""
    devices = [
        (plan["zero_optimization"].get(name) or {}).get("device") for name in ("offload_optimizer", "offload_param")
    ]
    if "nvme" in devices:
        raise ConfigError("DeepSpeed's offload to nvme is not supported, since checkpoints are made of memory: use cpu")
    return devices[0] == "cpu"


class Zero:
    """A DeepSpeed engine around AdamW."""

    def __init__(self, config: Config, shape: Shape, device: torch.device, share: Share) -> None:
        os.environ.setdefault("DS_ACCELERATOR", device.type)
        import deepspeed

        self.deepspeed, self.shape, self.share = deepspeed, shape, share
        self.fp16 = config.precision == "fp16"
        plan = policy(config, share)
        self.stage = plan["zero_optimization"].get("stage", 0)
        if self.stage not in (1, 2, 3):
            raise ConfigError(f"zero_optimization.stage is 1, 2 or 3, not {self.stage}; parallelism=ddp is stage 0")
        self.offloads = offload(plan)
        deepspeed.ops.__compatible_ops__[INFERENCE_KERNEL] = False
        deepspeed.init_distributed(dist_backend=deepspeed.get_accelerator().communication_backend_name(), verbose=False)
        partitioned = deepspeed.zero.Init(config_dict_or_path=plan) if self.stage == 3 else nullcontext()
        with partitioned:
            bare = models.build(shape, "none", False, str(device))
        # not inside: what partitions weights as they are made cannot look into a layer's wrapper
        self.model = models.wrapped(bare, config.activation_checkpointing, config.compile, reentrant=self.stage == 3)
        for name, parameter in self.model.named_parameters():
            with self._whole(parameter):
                parameter.data.copy_(models.first_value(self.model, name, parameter.shape, config.seed, device))
        # PyTorch's own on the host, too: fused, it goes through memory once, and DeepSpeed's needs a compiler there
        optimizer = AdamW(
            groups(self.model, config.weight_decay),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            fused=True,
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

    def update(self, rate: float, loss: Tensor) -> Tensor:
        if not loss.isfinite():
            return loss
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        self.engine.step()  # leaves a gradient that is not finite out, and says that its norm is infinite
        return torch.as_tensor(self.engine.get_global_grad_norm(), device=loss.device)

    def state(self) -> State:
        wrapped = self.engine.optimizer
        state: State = {}
        names = {parameter: models.plain(name) for name, parameter in self.model.named_parameters()}
        for group in wrapped.fp16_groups if self.stage == 3 else wrapped.bit16_groups:
            for parameter in group:
                name = names[parameter]
                whole = parameter.ds_shape if self.stage == 3 else parameter.shape
                size = models.true_size(self.shape, name, whole)
                for kind, moment in {"model": None, **MOMENTS}.items():
                    start, values = self._held(parameter, moment)
                    state[f"{kind}.{name}"] = piece(size, start, values)
        return state

    def _held(self, parameter: Any, moment: str | None) -> tuple[int, Tensor]:
        """This rank's run of a parameter in fp32, or of its moment: where it starts, and a view of its values."""
        wrapped = self.engine.optimizer
        if self.stage == 3:
            group, at, count = wrapped.grad_position[wrapped.get_param_id(parameter)]
            flat = wrapped.fp32_partitioned_groups_flat[group]
            held = flat.data if moment is None else wrapped.optimizer.state[flat][moment]
            return self.share.rank * count, held[at : at + count]
        found = parameter._hp_mapping
        if found is None:
            return 0, torch.empty(0)
        return found.lp_fragment_address.start, found.get_hp_fragment(moment).data

    def restore(self, read: Callable[[State], None], updates: int) -> None:
        """Every rank reads its runs, and the ranks put the weights of the passes together from them."""
        wrapped = self.engine.optimizer
        read(self.state())
        for moments in wrapped.optimizer.state.values():
            moments["step"].fill_(updates)
        if self.stage < 3:
            wrapped.update_lp_params()
            return
        wrapped._partition_all_parameters()
        for group in range(len(wrapped.fp16_groups)):
            wrapped._reassign_or_swap_out_partitioned_parameters(group)
        if wrapped.persistent_parameters:
            wrapped.persistent_parameters[0].all_gather(wrapped.persistent_parameters)

    def _make_moments(self) -> None:
        """AdamW's state, which it would make in its first step, so that there is a place to restore it to."""
        wrapped = self.engine.optimizer
        flat = wrapped.fp32_partitioned_groups_flat if self.stage == 3 else wrapped.single_partition_of_fp32_groups
        for partition in flat:
            wrapped.optimizer.state[partition] = {
                "step": torch.zeros((), device=partition.device),
                **{moment: torch.zeros_like(partition.data) for moment in MOMENTS.values()},
            }
        if self.stage < 3:
            wrapped._lazy_init_hp_params_optimizer_state()

    def _whole(self, parameter: Tensor) -> AbstractContextManager[object]:
        """Makes a parameter of stage 3 whole for a while, to be changed on rank 0."""
        if self.stage != 3:
            return nullcontext()
        gathered: AbstractContextManager[object] = self.deepspeed.zero.GatheredParameters([parameter], modifier_rank=0)
        return gathered

    def numbers(self) -> dict[str, float]:
        return {"loss_scale": float(self.engine.optimizer.loss_scaler.cur_scale)} if self.fp16 else {}

    def set_numbers(self, numbers: dict[str, float]) -> None:
        if self.fp16 and "loss_scale" in numbers:
            self.engine.optimizer.loss_scaler.cur_scale = numbers["loss_scale"]
