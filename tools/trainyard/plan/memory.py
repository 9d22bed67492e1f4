"""Memory of one GPU, term by term."""

from dataclasses import dataclass, replace

from trainyard.plan.run import Run

GIB = 2**30
CONTEXT = 1.0 * GIB
"""CUDA context and libraries: 0.5 to 2 GiB."""
COMMUNICATORS = 1.5 * GIB
"""Buffers of torch.distributed and NCCL: 1 to 2 GiB."""
FRAGMENTATION = 0.04
"""Part of what tensors take that the allocator loses: 2 to 10 %."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the memory, and how it comes about."""

    name: str
    bytes: float
    formula: str


def terms(run: Run) -> tuple[Term, ...]:
    """Every term of the GPU that holds most: the first pipeline stage, whose micro-batches wait longest."""
    found = [*_states(run), *_activations(run), _logits(run)]
    found += [Term("CUDA context", CONTEXT, "0.5 to 2 GiB")]
    if run.gpus > 1:
        found.append(Term("communicators", COMMUNICATORS, "1 to 2 GiB"))
    held = sum(term.bytes for term in found)
    found.append(Term("fragmentation", FRAGMENTATION * held, f"{FRAGMENTATION:.0%} of {_gib(held)}"))
    return tuple(term for term in found if term.bytes)


def total(run: Run) -> float:
    """Bytes in all."""
    return sum(term.bytes for term in terms(run))


def fits(run: Run) -> bool:
    """Whether all terms together fit."""
    return total(run) <= run.gpu.memory


def least(run: Run) -> tuple[Term, ...]:
    """Terms below which no program trains this run: kernels as fused as can be, nothing lost, half a GiB of context."""
    lean = replace(run, stack=replace(run.stack, fused=True))
    found = (*_states(lean), *_activations(lean), _logits(lean), Term("CUDA context", GIB / 2, "at least half a GiB"))
    return tuple(term for term in found if term.bytes)


def kept(run: Run) -> tuple[Term, ...]:
    """Weights, gradients and optimizer states: what a GPU holds from the first step to the last, whatever the batch."""
    names = ("weights", "gradients", "optimizer states")
    return tuple(term for term in _states(run) if term.bytes and term.name in names)


def local_parameters(run: Run) -> float:
    """Weights of one tensor- and pipeline-parallel rank, before data parallelism shares them out."""
    return run.shape.parameters / (run.tensor * run.pipeline)


def _states(run: Run) -> list[Term]:
    weights, ranks = local_parameters(run), run.shard_ranks
    text = count(weights)
    sixteen = run.stack.master or run.sharding in ("optimizer", "gradients")
    if run.precision in ("fp32", "tf32"):
        per = {"weights": 4, "gradients": 4, "optimizer states": 8}
    elif sixteen:
        per = {"weights": 2, "gradients": run.reduce_bytes if run.sharding != "full" else 2, "optimizer states": 12}
    else:
        per = {"weights": 4, "gradients": 4, "optimizer states": 8}
    shared = {
        "none": (),
        "optimizer": ("optimizer states",),
        "gradients": ("gradients", "optimizer states"),
        "full": ("weights", "gradients", "optimizer states"),
    }[run.sharding]
    away = {"none": (), "optimizer": ("gradients", "optimizer states"), "all": tuple(per)}[run.offload]
    found = []
    for name, size in per.items():
        if name in away:
            found.append(Term(name, 0.0, "in host memory"))
            continue
        parts = ranks if name in shared else 1
        formula = f"{size} byte x {text}" + (f" / {ranks} ranks" if parts > 1 else "")
        found.append(Term(name, size * weights / parts, formula))
    if run.sharding == "full":
        live = (
            weights if not run.reshard else min(weights, 2 * run.shape.layer / run.tensor + run.shape.head / run.tensor)
        )
        gradient = run.shape.layer / run.tensor
        found.append(Term("gathered weights", 2 * live, f"2 byte x {count(live)} that are whole at once"))
        size = run.reduce_bytes + 2
        found.append(Term("whole gradients", size * gradient, f"{size} byte x {count(gradient)} of one layer"))
    elif not sixteen and run.precision not in ("fp32", "tf32"):
        found.append(Term("16-bit weights", 2 * weights, f"2 byte x {text}, autocast's copies"))
    return found


def _activations(run: Run) -> list[Term]:
    tokens = run.micro * (run.shape.patches or run.sequence) / run.context
    layers = run.shape.layers / run.pipeline
    waiting = float(min(run.pipeline, run.accumulation))
    if run.interleave > 1:
        waiting = waiting * (1 + (run.pipeline - 1) / (run.pipeline * run.interleave))
    whole, edge = layer_bytes(run), 2 * run.shape.width / run.tensor
    kept = max(edge, whole - dropped_bytes(run))
    live = whole - kept
    formula = f"{tokens:,.0f} tokens x {kept / 1024:,.1f} KiB x {layers:g} layers"
    if waiting > 1:
        formula += f" x {waiting:.3g} micro-batches that wait"
    again = run.recompute
    name = "activations" if again.name == "none" else f"activations ({again.name} recompute)"
    found = [Term(name, tokens * kept * layers * waiting, formula)]
    if live:
        found.append(Term("layer at work", tokens * live, f"{tokens:,.0f} tokens x {live / 1024:,.1f} KiB"))
    return found


def dropped_bytes(run: Run) -> float:
    """Bytes a token and layer that backward makes again instead of finding them kept."""
    again, whole, scores = run.recompute, layer_bytes(run), scores_bytes(run)
    if again.name == "full":
        return whole
    if again.matrices == again.attention == again.elementwise:
        return again.matrices * whole
    if again.name == "attention":
        return scores
    # Kept are the layer's input, attention's result, and results of products: every second one, or all.
    shape = run.shape
    results = 3 * shape.width + 2 * shape.kv_width + (2 if shape.gated else 1) * shape.hidden
    kept = 2 * (2 * shape.width + (1 - again.matrices) * results) / run.tensor
    return whole - min(whole, kept)


def scores_bytes(run: Run) -> float:
    """Bytes a token and layer of attention's scores; flash kernels keep none (Korthikanti et al. 2022, eq. 2)."""
    if run.stack.attention != "scores":
        return 0.0
    return 5 * run.shape.heads * (run.shape.patches or run.sequence) / run.tensor


def layer_bytes(run: Run) -> float:
    """Bytes a token that one layer keeps for backward, nothing recomputed (Korthikanti et al. 2022, table 2)."""
    shape = run.shape
    inner = shape.width + 2 * shape.kv_width
    if run.stack.fused:
        # inputs of norms and products, queries, keys, values, attention's result, what the activation reads and gives
        size = 5 * shape.width + inner + (3 if shape.gated else 2) * shape.hidden
    elif shape.gated:
        # the same, norms in fp32, queries and keys before rotation, the sigmoid's result
        size = 8 * shape.width + 2 * inner + 4 * shape.hidden
    else:
        size = 6 * shape.width + inner + 2 * shape.hidden
    size *= 2
    if run.precision == "fp8" and run.stack.attention == "native":
        size -= 3 * shape.width + shape.hidden  # the inputs of products are kept at 8 bits
    return size / run.tensor + scores_bytes(run)


def _logits(run: Run) -> Term:
    if run.shape.patches:
        return Term("logits", 0.0, "")
    tokens, words = run.micro * run.sequence / run.context, run.shape.vocabulary / run.tensor
    # the 16-bit product, its fp32 copy and that one's gradient; fused losses keep no copy
    size = 4 if run.stack.attention == "native" else 6 if run.stack.fused or run.stack.fused_loss else 10
    return Term("logits", size * tokens * words, f"{size} byte x {tokens:,.0f} tokens x {words:,.0f} words")


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def count(number: float) -> str:
    """Weights as people say them."""
    return f"{number / 1e9:.2f}e9" if number >= 1e8 else f"{number / 1e6:.1f}e6"
