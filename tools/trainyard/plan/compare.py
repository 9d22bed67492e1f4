"""The same job in other ways: one thing changed at a time, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainyard.plan.forecast import Forecast, Speed, speed_of
from trainyard.plan.hardware import read, usual_network
from trainyard.plan.memory import fits
from trainyard.plan.run import RECOMPUTE, Run
from trainyard.plan.stacks import DDP, DEEPSPEED, FSDP

WORTH = 0.01
"""A change that saves less of the GPU-hours is none."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the job."""

    group: str
    """fabric, nodes, strategy, micro-batch, recompute or kernels."""
    name: str
    speed: Speed
    is_job: bool
    """The job as it is."""
    same_result: bool
    """The global batch is the job's, so the model that comes out is, too."""

    @property
    def gpu_seconds_per_token(self) -> float:
        """What a token costs."""
        return self.speed.run.gpus / self.speed.tokens_per_second


def variants(forecast: Forecast) -> list[Variant]:
    """Every variant, the job itself once in each group."""
    run = forecast.speed.run
    found = []
    for group, name, changed in _changes(run):
        if changed is not None:
            same = changed.samples == run.samples
            found.append(Variant(group, name, speed_of(changed), changed == run, same))
    return found


def best(forecast: Forecast, options: list[Variant]) -> Variant | None:
    """The single change that saves most GPU-hours on as many nodes with the same global batch.

    None where none is worth it. Where the job itself does not fit, any change that does is better than none.
    """
    now = forecast.speed.run.gpus / forecast.speed.tokens_per_second
    useful = [
        option
        for option in options
        if option.speed.fits and option.same_result and not option.is_job and option.group not in ("nodes", "fabric")
    ]
    if not useful:
        return None
    first = min(useful, key=lambda option: option.gpu_seconds_per_token)
    if forecast.speed.fits and first.gpu_seconds_per_token > (1 - WORTH) * now:
        return None
    return first


_MOST_MICRO = 4096
"""The largest micro-batch that is tried: no GPU has room for more samples."""


def remedies(run: Run) -> list[str]:
    """Single changes of job.yaml that make a run fit, the fastest first."""
    found = []
    for micro in range(min(run.micro - 1, _MOST_MICRO), 0, -1):
        if (changed := same_batch(replace(run, micro=micro), run)) is not None:
            found.append((f"micro {micro} x accumulation {changed.accumulation}", changed))
    for value, name in (("selective", "cheap"), ("full", "full")):
        changed = replace(run, recompute=RECOMPUTE[name])
        found.append((f"TRAINER_ACTIVATION_CHECKPOINTING: {value} under env", changed))
    found += [(f"parallelism {name}", changed) for name, changed in _strategies(run) if name == "fsdp"]
    fitting = [(speed_of(changed).tokens_per_second, name) for name, changed in found if fits(changed)]
    return [name for _, name in sorted(fitting, reverse=True)]


def _changes(run: Run) -> Iterator[tuple[str, str, Run | None]]:
    yield from _fabrics(run)
    nodes = sorted({1, 2, max(1, run.nodes // 2), run.nodes, run.nodes * 2, run.nodes * 4})
    for count in nodes:
        changed = replace(run, gpus=count * run.gpus_per_node)
        yield "nodes", f"{count} nodes" if count > 1 else "1 node", same_batch(changed, run) or changed
    yield from (("strategy", name, changed) for name, changed in _strategies(run))
    for micro in sorted({max(1, run.micro // 4), max(1, run.micro // 2), run.micro, run.micro * 2, run.micro * 4}):
        changed = replace(run, micro=micro)
        yield "micro-batch", f"micro-batch {micro}", run if micro == run.micro else same_batch(changed, run)
    for name, label in (("none", "nothing computed again"), ("cheap", "selective"), ("full", "every layer")):
        yield "recompute", label, replace(run, recompute=RECOMPUTE[name])
    for fused in (False, True):
        name = "compiled" if fused else "eager"
        yield "kernels", name, replace(run, stack=replace(run.stack, fused=fused))


def same_batch(changed: Run, run: Run) -> Run | None:
    """A changed run with as many passes as keep the global batch; None where none do."""
    each = changed.micro * changed.data
    return replace(changed, accumulation=run.samples // each) if run.samples % each == 0 else None


def _fabrics(run: Run) -> Iterator[tuple[str, str, Run]]:
    usual = usual_network()[run.gpu.name] * run.gpus_per_node
    sockets = float(read("nodes.yaml")["usual_sockets"]) * 1e9 / 8
    yield "fabric", f"{run.transport} {_gbps(run.network)} (this cluster)", run
    for transport, rate in (("rdma", usual), ("rdma", usual / 4), ("sockets", sockets)):
        if (transport, rate) != (run.transport, run.network):
            changed = replace(run, transport=transport, network=rate)  # type: ignore[arg-type]
            yield "fabric", f"{transport} {_gbps(rate)}", changed


def _strategies(run: Run) -> Iterator[tuple[str, Run]]:
    fused = run.stack.fused
    zero = replace(DEEPSPEED, fused=fused)
    ddp = replace(run, stack=replace(DDP, fused=fused), sharding="none", reduce_bytes=4, offload="none", reshard=True)
    yield "ddp", ddp
    fsdp = replace(ddp, stack=replace(FSDP, fused=fused), sharding="full")
    yield "fsdp", fsdp
    yield "fsdp, weights kept after forward", replace(fsdp, reshard=False)
    deepspeed = replace(ddp, stack=zero, reduce_bytes=2)
    yield "zero-1", replace(deepspeed, sharding="optimizer")
    yield "zero-2", replace(deepspeed, sharding="gradients")
    yield "zero-2-offload", replace(deepspeed, sharding="gradients", offload="optimizer")
    yield "zero-3", replace(deepspeed, sharding="full")
    yield "zero-3-offload", replace(deepspeed, sharding="full", offload="all")


def _gbps(rate: float) -> str:
    return f"{rate * 8 / 1e9:,.0f} Gbit/s"
