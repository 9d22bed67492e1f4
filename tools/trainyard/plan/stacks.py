"""Training programs by the name of their strategy: what each does with the same arithmetic. None of it is fitted."""

import re
from dataclasses import dataclass, replace

from trainyard.plan.run import Sharding, Stack

FSDP = Stack("fsdp", attention="portable", fused=False, collectives=1)
"""PyTorch FSDP, eager: a flat gather of each layer. Weights are fp32 shards, computed in 16 bits."""

COMPOSER = replace(FSDP, name="composer", fused_loss=True)
"""MosaicML Composer: PyTorch FSDP, with a fused cross-entropy."""

DDP = Stack("ddp", attention="portable", fused=False, collectives=1)
"""PyTorch DistributedDataParallel: buckets of gradients reduced during backward."""

DEEPSPEED = Stack("zero", attention="portable", fused=False, collectives=6, master=True)
"""DeepSpeed: stage 3 fetches weights module by module, about six a layer."""

DEEPSPEED_2021 = replace(
    DEEPSPEED,
    name="zero before flash attention",
    attention="scores",
    fused=True,
    collectives=12,
    hides_data_parallel=False,
)
"""DeepSpeed on Megatron's layers before flash attention: about twelve tensors a layer, each fetched when needed."""

MEGATRON_2021 = Stack(
    "megatron before flash attention", "scores", fused=True, collectives=1, hides_data_parallel=False, master=True
)
"""Megatron-LM of 2021: fused elementwise kernels, scores in memory, gradients reduced after the last backward."""

MEGATRON = Stack("megatron", "scores", fused=True, collectives=1, hides_data_parallel=False, master=True)
"""Megatron-LM as it comes: flash attention is a flag that is off by default."""

MEGATRON_CORE = Stack("megatron core", "native", fused=True, collectives=1, hides_tensor_parallel=True, master=True)
"""Megatron Core with Transformer Engine: attention kernels of the GPU's generation, all communication overlapped."""

MEGASCALE = Stack("megascale", "portable", fused=True, collectives=1, hides_tensor_parallel=True, master=True)
"""MegaScale: Megatron-LM with all three kinds of communication overlapped."""


FOUR = Stack("fsdp, tensor, context and pipeline parallelism", "portable", fused=True, collectives=1, master=True)
"""Meta's program for Llama 3: fused kernels, weights gathered once a step."""

TRANSFORMER_ENGINE = re.compile(r"fp8-(cs|mx|ds|sc)")
"""Names of Transformer Engine's recipes for 8 bits: where one is stated, that library's kernels run."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy as published tables write it, taken apart."""

    stack: Stack
    sharding: Sharding
    hybrid: bool = False
    """Weights are shared out inside a node, and copied on every node (HSDP)."""
    shard: int = 0
    tensor: int = 0
    pipeline: int = 0
    context: int = 0
    """Degrees that the text names; 0 where it does not."""
    reshard: bool = True
    interleaved: bool | None = None
    """None where the text does not say."""
    free_layout: bool = False
    """The program has model parallelism, so degrees that nobody states are chosen, not 1."""
    fp8: bool = False
    offload: bool = False
    splits_batch: bool = False
    """A local batch is split into one micro-batch a pipeline stage, which is torchtitan's default."""


def strategy(text: str, precision: str, year: int) -> Strategy | None:
    """What a strategy's text says, for a source of a year (0: not known); None where the program is not known.

    Flash attention is of 2022: programs of sources until then write their scores to memory.
    """
    words = text.lower()
    old = 0 < year <= 2022
    base = _base(words, old)
    if base is None:
        return None
    stack = base.stack
    if "compile" in words:
        stack = replace(stack, fused=True)
    if re.search(r"async[ -]?tp", words):
        stack = replace(stack, hides_tensor_parallel=True)
    if TRANSFORMER_ENGINE.match(precision):
        stack = replace(MEGATRON_CORE, master=stack.master)
    return replace(
        base,
        stack=stack,
        hybrid="hsdp" in words,
        shard=_degree(words, "fsdp") if re.search(r"\btp\d|\bpp\d|\bcp\d", words) else 0,
        tensor=_degree(words, "tp"),
        pipeline=_degree(words, "pp"),
        context=_degree(words, "cp"),
        interleaved=True if "interleaved" in words else False if "1f1b" in words else None,
        fp8="float8" in words + precision or "fp8" in words + precision,
        splits_batch=_degree(words, "pp") > 0,
        offload="offload" in words,
    )


def _base(words: str, old: bool) -> Strategy | None:
    first = re.split(r"[\s+(]", words, maxsplit=1)[0]
    if first.startswith("zero"):
        stage = re.match(r"zero-?([123])", first)
        if stage is None:
            return None
        shared: tuple[Sharding, ...] = ("optimizer", "gradients", "full")
        sharding = shared[int(stage[1]) - 1]
        return Strategy(DEEPSPEED_2021 if old else DEEPSPEED, sharding)
    if first == "megascale":
        return Strategy(MEGASCALE, "optimizer", free_layout=True)
    if first.startswith("megatron"):
        return Strategy(MEGATRON_2021 if old else MEGATRON, "optimizer", free_layout=True)
    if "distributed-optimizer" in words:
        return Strategy(MEGATRON_CORE, "optimizer")
    if first == "fsdp-shard_grad_op":
        return Strategy(COMPOSER, "full", reshard=False)
    if first == "fsdp-full_shard":
        return Strategy(COMPOSER, "full")
    if words.split("+")[0] == "fsdp" and "+tp" in words and "+pp" in words:
        return Strategy(FOUR, "full", free_layout=True)
    if re.match(r"h?fsdp\d*|hsdp", first):
        return Strategy(FSDP, "full")
    if first == "ddp":
        return Strategy(DDP, "none")
    return None


def _degree(words: str, name: str) -> int:
    found = re.search(rf"\b{name}(\d+)\b", words)
    return int(found[1]) if found else 0
