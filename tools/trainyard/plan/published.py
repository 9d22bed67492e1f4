"""Published runs: a row of a table as a run to forecast, or the reason why it cannot be one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.plan.constants import Constants
from trainyard.plan.hardware import gpus, usual_network
from trainyard.plan.layout import choose, feasible
from trainyard.plan.layouts import layouts
from trainyard.plan.rows import Refused, integer, mapping, number
from trainyard.plan.run import Run
from trainyard.plan.shapes import Shape, shapes
from trainyard.plan.stacks import strategy

METRICS = ("tokens_s_gpu", "tokens_s", "iteration_s")
"""What a row may state, the first that it does being the one that counts."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One row: what was measured, and the runs that it may have been."""

    id: str
    source: str
    metric: str
    """tokens_s_gpu, tokens_s or iteration_s: the row's own; tokens_s_gpu where it states TFLOP/s."""
    measured: float | None
    """In that metric; None where the row does not say."""
    candidates: tuple[Run, ...]
    """One where the row says all; else the ways in which it may leave open what it leaves open."""


def published(row: Mapping[str, Any], document: Mapping[str, Any]) -> PublishedRun:
    """A row as a run. Refused, with the reason in words, where its inputs do not suffice."""
    if row.get("score") is False:
        raise Refused("its source is not trusted (score: false)")
    source = mapping(mapping(document.get("sources")).get(str(row.get("source"))))
    shape = _shape(row, mapping(document.get("models")))
    gpu = gpus().get(str(row.get("gpu")))
    if gpu is None:
        raise Refused(f"GPU {row.get('gpu')} is not known")
    count = integer(row, "gpus")
    per_node = integer(row, "gpus_per_node", default=min(8, count))
    precision = str(row.get("precision", "bf16"))
    plan = strategy(str(row.get("strategy", "")), precision, _year(source))
    if plan is None:
        raise Refused(f"strategy {row.get('strategy')} is not known")
    sequence = integer(row, "seq_len")
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
    candidates = feasible(tuple(layouts(run, row, plan)))
    if not candidates:
        raise Refused("no layout of model parallelism divides its GPUs, layers and batch")
    metric, measured = _measured(row, source, candidates[0])
    return PublishedRun(str(row.get("id", "")), str(row.get("source", "")), metric, measured, candidates)


def stated(row: Mapping[str, Any]) -> float | None:
    """What a row says was measured, where that needs no reckoning."""
    for metric in METRICS:
        if metric in row:
            try:
                return number(row, metric)
            except Refused:
                return None
    return None


def chosen(item: PublishedRun, constants: Constants) -> Run:
    """The candidate that its authors would have run: the fastest that fits, or the smallest where none does."""
    return choose(item.candidates, constants)


def _shape(row: Mapping[str, Any], models: Mapping[str, Any]) -> Shape:
    name = str(row.get("model", ""))
    facts = mapping(models.get(name))
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
    width, heads = integer(facts, "hidden"), integer(facts, "heads")
    hidden = integer(facts, "ffn") if "ffn" in facts else width * integer(facts, "ffn_mult")
    billions = number(facts, "params_b") * 1e9 if "params_b" in facts else 0
    return Shape(
        name,
        layers=integer(facts, "layers"),
        width=width,
        heads=heads,
        kv=integer(facts, "kv_heads", default=heads),
        hidden=hidden,
        vocabulary=integer(facts, "vocab"),
        gated="ffn" in facts,
        tied="ffn" not in facts,
        total=int(number(row, "params")) if "params" in row else int(billions),
    )


def _network(row: Mapping[str, Any], gpu: str, per_node: int) -> float:
    if "inter_node_gbps_per_node" in row:
        return number(row, "inter_node_gbps_per_node") * 1e9 / 8
    return usual_network()[gpu] * per_node


def _measured(row: Mapping[str, Any], source: Mapping[str, Any], run: Run) -> tuple[str, float | None]:
    for metric in METRICS:
        if metric in row:
            return metric, number(row, metric)
    if "tflops_gpu" in row:
        work = _counted(run, str(source.get("mfu_convention") or ""))
        return "tokens_s_gpu", number(row, "tflops_gpu") * 1e12 / work
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
