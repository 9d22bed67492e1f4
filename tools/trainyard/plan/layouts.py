"""The ways in which a published run may have been laid out, where its row leaves that open."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainyard.plan.rows import Refused, integer
from trainyard.plan.run import RECOMPUTE, Recompute, Run
from trainyard.plan.stacks import Strategy

TORCHTITAN_CHUNKS = 2
"""Model chunks a stage of its interleaved schedule."""


def layouts(run: Run, row: Mapping[str, Any], plan: Strategy) -> Iterator[Run]:
    """Every layout of a run that its row allows. Refused, with the reason in words, where it allows none."""
    for tensor, pipeline, context in _degrees(run, row, plan):
        if run.gpus % (tensor * pipeline * context):
            continue
        data = run.gpus // (tensor * pipeline * context)
        if "dp" in row and integer(row, "dp") != data:
            raise Refused(
                f"tp x pp x cp x dp is not gpus: {tensor} x {pipeline} x {context} x {row['dp']} for {run.gpus}"
            )
        placed = replace(run, tensor=tensor, pipeline=pipeline, context=context, shard=0)
        if plan.hybrid and tensor * pipeline * context == 1:
            placed = replace(placed, shard=min(run.gpus_per_node, data))
        if plan.shard and data % plan.shard == 0:
            # "FSDP2 CP4" names the ranks that share apart from those of context parallelism, which share too.
            placed = replace(placed, shard=min(plan.shard * context, data * context))
        for micro, accumulation in _batches(placed, row, plan):
            for interleave in _interleaves(placed, plan, accumulation):
                for again in _recomputes(row):
                    yield replace(
                        placed, micro=micro, accumulation=accumulation, interleave=interleave, recompute=again
                    )


def _degrees(run: Run, row: Mapping[str, Any], plan: Strategy) -> Iterator[tuple[int, int, int]]:
    tensor = integer(row, "tp", default=plan.tensor)
    pipeline = integer(row, "pp", default=plan.pipeline)
    context = integer(row, "cp", default=plan.context) or 1
    if not plan.free_layout or (tensor and pipeline):
        yield tensor or 1, pipeline or 1, context
        return
    model = integer(row, "model_parallel", default=0)
    # Tensor parallelism stays inside a node and goes first; pipeline stages take the rest.
    tensor = tensor or min(run.gpus_per_node, model or run.gpus_per_node)
    if model:
        if model % tensor:
            raise Refused(f"model_parallel {model} is not divisible by the {tensor} GPUs of a node")
        yield tensor, model // tensor, context
        return
    for stages in (pipeline,) if pipeline else _divisors(run.shape.layers):
        yield tensor, stages, context


def _batches(run: Run, row: Mapping[str, Any], plan: Strategy) -> Iterator[tuple[int, int]]:
    total = _total(row, run)
    micro = integer(row, "micro_batch", default=0)
    if total is None:
        if not micro:
            raise Refused("neither micro_batch nor global_batch_seqs is stated")
        yield _split(run, plan, micro, integer(row, "grad_accum", default=1))
        return
    if total % run.data:
        raise Refused(f"global batch {total} is not divisible by {run.data} data-parallel ranks")
    each = total // run.data
    if micro:
        if each % micro:
            raise Refused(f"batch {each} of a replica is not divisible by micro_batch {micro}")
        yield _split(run, plan, micro, each // micro)
        return
    for size in (1, 2, 4, 8, 16, 32):
        if each % size == 0:
            yield size, each // size


def _split(run: Run, plan: Strategy, micro: int, accumulation: int) -> tuple[int, int]:
    """Samples of a pass, and passes. Some programs call a replica's whole batch its micro-batch and split it."""
    if run.pipeline > 1 and accumulation == 1 and plan.splits_batch:
        passes = math.gcd(micro, run.pipeline * (TORCHTITAN_CHUNKS if plan.interleaved else 1))
        return micro // passes, passes
    return micro, accumulation


def _total(row: Mapping[str, Any], run: Run) -> int | None:
    if "global_batch_seqs" in row:
        return integer(row, "global_batch_seqs")
    if "batch_per_dp" in row:
        return integer(row, "batch_per_dp") * run.data
    return None


def _interleaves(run: Run, plan: Strategy, accumulation: int) -> Iterator[int]:
    if run.pipeline == 1 or plan.interleaved is False or (plan.splits_batch and not plan.interleaved):
        yield 1
        return
    if plan.splits_batch:
        yield TORCHTITAN_CHUNKS
        return
    layers = run.shape.layers // run.pipeline
    for chunks in _divisors(layers) if run.shape.layers % run.pipeline == 0 else range(1, layers + 1):
        # An interleaved schedule needs micro-batches in multiples of the stages.
        if chunks == 1 or accumulation % run.pipeline == 0:
            yield chunks


def _recomputes(row: Mapping[str, Any]) -> Iterator[Recompute]:
    text = row.get("activation_checkpointing")
    if text is None:
        yield from (again for again in RECOMPUTE.values() if again.name != "selective")
        return
    name = str(text).lower().replace(" op", "")
    if name not in RECOMPUTE:
        raise Refused(f"activation_checkpointing {text} is not known")
    yield RECOMPUTE[name]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
