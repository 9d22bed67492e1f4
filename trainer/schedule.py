"""Batch, learning rate and world size: the arithmetic that is checked before a run starts."""

import math
from dataclasses import dataclass

from trainer.config import Config, Scaling
from trainer.data import Share
from trainer.errors import ConfigError
from trainer.launch import Ranks


@dataclass(frozen=True, slots=True)
class Schedule:
    """Learning rate as a function of samples seen, so that neither ranks nor batch change the curve."""

    peak: float
    final: float
    warmup: int
    """Samples over which the rate rises."""
    total: int
    """Samples of the whole run."""
    decay: str

    def rate(self, position: int, global_batch: int) -> float:
        """The learning rate of the step that starts at `position`; the first step of a warm-up is not zero."""
        if position < self.warmup:
            return self.peak * min(1.0, (position + global_batch) / self.warmup)
        done = (position - self.warmup) / max(1, self.total - self.warmup)
        floor = self.peak * self.final
        match self.decay:
            case "cosine":
                return floor + (self.peak - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
            case "linear":
                return floor + (self.peak - floor) * max(0.0, 1 - done)
            case _:
                return self.peak


def schedule(config: Config, global_batch: int) -> Schedule:
    """The schedule of a config. Raises ConfigError where its numbers contradict each other."""
    if config.warmup_steps >= config.steps:
        raise ConfigError(f"warmup_steps {config.warmup_steps} leaves none of the {config.steps} steps")
    _check_scaling(config.scaling, config.learning_rate, global_batch)
    return Schedule(
        config.learning_rate,
        config.final_learning_rate,
        config.warmup_steps * global_batch,
        config.steps * global_batch,
        config.decay,
    )


def _check_scaling(scaling: Scaling, rate: float, global_batch: int) -> None:
    if scaling.rule == "none":
        return
    if not (scaling.base_learning_rate and scaling.base_batch):
        raise ConfigError(f"scaling.rule {scaling.rule} needs scaling.base_learning_rate and scaling.base_batch")
    factor = global_batch / scaling.base_batch
    expected = scaling.base_learning_rate * (factor if scaling.rule == "linear" else math.sqrt(factor))
    if not math.isclose(rate, expected, rel_tol=0.01):
        by = f"{global_batch} / {scaling.base_batch}"
        by = by if scaling.rule == "linear" else f"sqrt({by})"
        raise ConfigError(
            f"scaling.rule {scaling.rule}: {scaling.base_learning_rate:g} x {by} = {expected:g}, "
            f"but learning_rate is {rate:g}"
        )


def share(config: Config, ranks: Ranks) -> Share:
    """A rank's share of each step. Raises ConfigError where the batch does not come out as declared.

    An elastic run keeps its global batch at every size that divides it: the micro-batch is the largest one up to
    micro_batch that fits, and the accumulation what is left.
    """
    world, declared = ranks.world, config.global_batch
    if not config.min_nodes:
        taken = config.micro_batch * config.accumulation * world
        if declared and taken != declared:
            raise ConfigError(
                f"micro_batch {config.micro_batch} x accumulation {config.accumulation} x ranks {world} = {taken}, "
                f"but global_batch is {declared}"
            )
        return Share(ranks.rank, world, config.micro_batch, config.accumulation)
    if not declared:
        raise ConfigError("an elastic run needs global_batch, which is what it keeps")
    sizes = allowed_sizes(config, ranks.local_world)
    if world not in sizes:
        raise ConfigError(
            f"{world} ranks cannot train a global batch of {declared}: from {config.min_nodes} nodes of "
            f"{ranks.local_world} ranks on, the sizes that divide it are {', '.join(map(str, sizes)) or 'none'}"
        )
    each = declared // world
    micro = next(size for size in range(min(config.micro_batch, each), 0, -1) if each % size == 0)
    return Share(ranks.rank, world, micro, each // micro)


def allowed_sizes(config: Config, per_node: int) -> list[int]:
    """World sizes that an elastic run may have."""
    most = config.nodes or config.global_batch
    sizes = (nodes * per_node for nodes in range(config.min_nodes, most + 1))
    return [size for size in sizes if config.global_batch % size == 0]
