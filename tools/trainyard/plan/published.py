"""Published runs: a row of a table as a run to forecast, or the reason why it cannot be one."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.plan.constants import Constants
from trainyard.plan.hardware import gpus, usual_network
from trainyard.plan.layout import choose, feasible
from trainyard.plan.run import RECOMPUTE, Recompute, Run
from trainyard.plan.shapes import Shape, shapes
from trainyard.plan.stacks import Strategy, strategy

TORCHTITAN_CHUNKS = 2
"""Model chunks a stage of its interleaved schedule."""


METRICS = ("tokens_s_gpu", "tokens_s", "iteration_s")
"""What a row may state, the first that it does being the one that counts."""

LARGEST = 10**9
"""No count of a run is larger."""


class Refused(Exception):
    """A row does not say enough, or asks for what the model does not know."""


@dataclass(frozen=True, slots=True)
class Published:
    """One row: what was measured, and the runs that it may have been."""

    id: str
    source: str
    metric: str
    """tokens_s_gpu, tokens_s or iteration_s: the row's own; tokens_s_gpu where it states TFLOP/s."""
    measured: float | None
    """In that metric; None where the row does not say."""
    candidates: tuple[Run, ...]
    """One where the row says all; else the ways in which it may leave open what it leaves open."""


def published(row: Mapping[str, Any], document: Mapping[str, Any]) -> Published:
    """A row as a run. Refused, with the reason in words, where its inputs do not suffice."""
    if row.get("score") is False:
        raise Refused("its source is not trusted (score: false)")
    source = _map(_map(document.get("sources")).get(str(row.get("source"))))
    shape = _shape(row, _map(document.get("models")))
    gpu = gpus().get(str(row.get("gpu")))
    if gpu is None:
        raise Refused(f"GPU {row.get('gpu')} is not known")
    count = _integer(row, "gpus")
    per_node = _integer(row, "gpus_per_node", default=min(8, count))
    precision = str(row.get("precision", "bf16"))
    plan = strategy(str(row.get("strategy", "")), precision, _year(source))
    if plan is None:
        raise Refused(f"strategy {row.get('strategy')} is not known")
    sequence = _integer(row, "seq_len")
    if re.search(r"fp4|float4", precision):
        raise Refused(f"precision {precision} is not modelled")
    if plan.fp8 and gpu.fp8 is None:
        raise Refused(f"{gpu.name} has no 8-bit units")
    # Gradients travel in the precision of their reduction: fp32 where only computing is cast (mixed), else 16 bits.
    mixed = precision.startswith("amp") or plan.stack.name.startswith("mega")
    run = Run(
        shape=shape,
        gpu=gpu,
        gpus=count,
        gpus_per_node=min(per_node, max(count, 1)),
        network=_network(row, gpu.name, min(per_node, count)),
        transport="sockets" if re.search(r"\bTCP\b|no RDMA", str(row.get("network", ""))) else "rdma",
        stack=plan.stack,
        sharding=plan.sharding,
        sequence=sequence,
        micro=1,
        accumulation=1,
        reshard=plan.reshard,
        precision="fp8" if plan.fp8 else "16",
        reduce_bytes=4 if mixed else 2,
        offload="optimizer" if plan.offload else "none",
    )
    candidates = feasible(tuple(_layouts(run, row, plan)))
    if not candidates:
        raise Refused("no layout of model parallelism divides its GPUs, layers and batch")
    metric, measured = _measured(row, source, candidates[0])
    return Published(str(row.get("id", "")), str(row.get("source", "")), metric, measured, candidates)


def stated(row: Mapping[str, Any]) -> float | None:
    """What a row says was measured, where that needs no reckoning."""
    for metric in METRICS:
        if metric in row:
            try:
                return _number(row, metric)
            except Refused:
                return None
    return None


def chosen(item: Published, constants: Constants) -> Run:
    """The candidate that its authors would have run: the fastest that fits, or the smallest where none does."""
    return choose(item.candidates, constants)


def _map(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _layouts(run: Run, row: Mapping[str, Any], plan: Strategy) -> Iterator[Run]:
    for tensor, pipeline, context in _degrees(run, row, plan):
        if run.gpus % (tensor * pipeline * context):
            continue
        data = run.gpus // (tensor * pipeline * context)
        if "dp" in row and _integer(row, "dp") != data:
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
    tensor = _integer(row, "tp", default=plan.tensor)
    pipeline = _integer(row, "pp", default=plan.pipeline)
    context = _integer(row, "cp", default=plan.context) or 1
    if not plan.free_layout or (tensor and pipeline):
        yield tensor or 1, pipeline or 1, context
        return
    model = _integer(row, "model_parallel", default=0)
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
    micro = _integer(row, "micro_batch", default=0)
    if total is None:
        if not micro:
            raise Refused("neither micro_batch nor global_batch_seqs is stated")
        yield _split(run, plan, micro, _integer(row, "grad_accum", default=1))
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
        return _integer(row, "global_batch_seqs")
    if "batch_per_dp" in row:
        return _integer(row, "batch_per_dp") * run.data
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


def _shape(row: Mapping[str, Any], models: Mapping[str, Any]) -> Shape:
    name = str(row.get("model", ""))
    facts = _map(models.get(name))
    if not facts:
        if name in shapes():
            return shapes()[name]
        written = dict(re.findall(r"(layers|hidden) (\d+)", name))
        if set(written) != {"layers", "hidden"}:
            raise Refused(f"the shape of model {name} is not stated")
        facts = {key: int(value) for key, value in written.items()} | {"vocab": 50257, "ffn_mult": 4}
        facts["heads"] = facts["hidden"] // 128
    if any(key in facts for key in ("experts", "moe", "n_experts")):
        raise Refused(f"model {name} is a mixture of experts, which is not modelled")
    facts = dict(facts)
    width, heads = _integer(facts, "hidden"), _integer(facts, "heads")
    hidden = _integer(facts, "ffn") if "ffn" in facts else width * _integer(facts, "ffn_mult")
    billions = _number(facts, "params_b") * 1e9 if "params_b" in facts else 0
    return Shape(
        name,
        layers=_integer(facts, "layers"),
        width=width,
        heads=heads,
        kv=_integer(facts, "kv_heads", default=heads),
        hidden=hidden,
        vocabulary=_integer(facts, "vocab"),
        gated="ffn" in facts,
        tied="ffn" not in facts,
        total=int(_number(row, "params")) if "params" in row else int(billions),
    )


def _network(row: Mapping[str, Any], gpu: str, per_node: int) -> float:
    if "inter_node_gbps_per_node" in row:
        return _number(row, "inter_node_gbps_per_node") * 1e9 / 8
    return usual_network()[gpu] * per_node


def _measured(row: Mapping[str, Any], source: Mapping[str, Any], run: Run) -> tuple[str, float | None]:
    for metric in METRICS:
        if metric in row:
            return metric, _number(row, metric)
    if "tflops_gpu" in row:
        work = _counted(run, str(source.get("mfu_convention") or ""))
        return "tokens_s_gpu", _number(row, "tflops_gpu") * 1e12 / work
    if "scaling_efficiency_pct" in row:
        raise Refused("only its scaling efficiency was measured")
    return "tokens_s_gpu", None


def _counted(run: Run, convention: str) -> float:
    """Operations that a source counts for one token."""
    shape, words = run.shape, convention.lower()
    s, width, layers = run.sequence, shape.width, shape.layers
    if words.startswith("hardware"):
        return 96 * layers * width**2 * (1 + s / (6 * width) + shape.vocabulary / (16 * layers * width))
    if words.startswith("model flops") or "12*l*d*s" in words:
        return 6 * (shape.parameters - shape.looked_up) + 12 * layers * width * s
    if "6*l*d*s" in words:
        return 6 * (shape.parameters - shape.looked_up) + 6 * layers * width * s
    raise Refused("TFLOP/s were measured, but not by which convention")


def _year(source: Mapping[str, Any]) -> int:
    text = f"{source.get('title', '')}"
    found = re.search(r"arXiv (\d\d)\d\d\.", text)
    if found:
        return 2000 + int(found[1])
    year = re.search(r"\b(20[12]\d)\b", text.replace("_", " "))
    return int(year[1]) if year else 0


def _integer(row: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A count of at least 1; `default`, which may be 0 for a count that is not stated, where the key is absent."""
    if key not in row and default is not None:
        return default
    value = row.get(key)
    if value is None:
        raise Refused(f"{key} is not stated")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise Refused(f"{key} is {value}, which is not a count")
    return value


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise Refused(f"{key} is {value}, which is not a number above 0")
    return float(value)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
