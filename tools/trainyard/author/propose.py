"""What a job is proposed: batch, learning rate, schedule, sharding that fits the GPUs, and how often to save."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trainyard.author.answers import Answers, Preferences, Refused
from trainyard.author.choices import Choices
from trainyard.author.recipe import Recipe, recipe_for
from trainyard.plan import forecast as plan
from trainyard.plan.compare import WORTH
from trainyard.plan.job import Job, Unplannable, job_of, run_of
from trainyard.plan.memory import GIB, total
from trainyard.plan.run import RECOMPUTE, Run
from trainyard.plan.shapes import shapes

ROOM = 0.88
"""Part of a GPU's memory that a proposal fills at most: what is forecast is not what is measured. PyTorch reserves
more, 12 % more in torchtitan's run of Llama 3 8B on 8 GPUs without compilation (2024-12 table)."""

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)

FAR = 0.1
"""From here on a batch is another one than the recipe's, and the learning rate is scaled with it."""

LEAST_STEPS = 1000
"""Steps that are proposed at least: small models would be done before their warm-up."""

MOST_NODES = 1024
"""Up to here nodes are looked for that a model fits."""

KEEP = 3
"""Checkpoints that are kept, as the bases have it."""

STRATEGIES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "deepspeed": tuple(
        ("deepspeed", policy) for policy in ("zero-1", "zero-2", "zero-3", "zero-2-offload", "zero-3-offload")
    ),
    "tfjob": (("ddp", ""),),
    "": (("ddp", ""), ("fsdp", "")),
}
"""How ranks can share the model under a base, the plainest first; `` stands for bases that are not named."""

CHECKPOINTING = ("none", "selective", "full")
"""What backward can compute again, the cheapest first."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The numbers of a job.yaml that its author need not know."""

    sequence: int | None
    """Tokens of a sample; None for images."""
    micro: int
    accumulation: int
    batch: int
    learning_rate: float
    warmup_steps: int
    steps: int
    step_seconds: float
    """Forecast."""
    parallelism: str
    deepspeed: str
    checkpointing: str
    every_steps: int
    room: str
    """Size of the claim for checkpoints."""
    recipe: Recipe
    scaled: bool
    """The learning rate was scaled from the recipe's, since the batch is another."""
    why_shared: str
    """Why the model is shared out in another way than the plainest; empty where it is not."""
    why_again: str
    """Why backward computes again; empty where it does not."""


def propose(choices: Choices, answers: Answers, wishes: Preferences) -> Proposal:
    """A proposal that fits. Refused where none does, or where a wish cannot be met."""
    shape = shapes()[answers.model]
    sequence = shape.patches or wishes.sequence or choices.models()[answers.model]
    if not shape.patches and sequence > shape.context:
        raise Refused(f"{answers.model} takes samples of at most {shape.context} tokens, not {sequence}")
    recipe = recipe_for(shape, sequence)
    candidates = list(_candidates(choices, answers, sequence))
    if wishes.batch is not None:
        check_batch(wishes.batch, candidates[0][0].data)
    job_run, job, strategy, checkpointing = _fastest(candidates, recipe.batch, wishes.batch, answers)
    scaled = abs(job_run.samples / recipe.batch - 1) > FAR
    rate = recipe.learning_rate * (math.sqrt(job_run.samples / recipe.batch) if scaled else 1)
    steps = wishes.steps or _steps(job_run, recipe, wishes, bool(shape.patches))
    found = plan.forecast(job, job_run, plan.Overrides(), None)
    every = rounded(found.goodput.best_interval / found.speed.step.total)
    return Proposal(
        sequence=None if shape.patches else sequence,
        micro=job_run.micro,
        accumulation=job_run.accumulation,
        batch=job_run.samples,
        learning_rate=wishes.learning_rate or float(f"{rate:.2g}"),
        warmup_steps=min(recipe.warmup_steps, steps // 10),
        steps=steps,
        step_seconds=found.speed.step.total,
        parallelism=strategy[0],
        deepspeed=strategy[1],
        checkpointing=checkpointing,
        every_steps=max(1, min(every, steps // 4)),
        room=size((KEEP + 1) * found.goodput.bytes * 1.1),
        recipe=recipe,
        scaled=scaled and wishes.learning_rate is None,
        why_shared=_why_shared(candidates, job_run),
        why_again=_why_again(job_run),
    )


def check_batch(batch: int, ranks: int) -> None:
    """Refused where ranks cannot share a batch out evenly."""
    if batch % ranks:
        low = max(ranks, batch // ranks * ranks)
        raise Refused(f"batch {batch} is not a multiple of the {ranks} ranks: take {low} or {low + ranks}")


def rounded(number: float) -> int:
    """Two digits of it, at least 1."""
    if number < 100:
        return max(1, round(number))
    digits = math.floor(math.log10(number)) - 1
    return int(round(number / 10**digits) * 10**digits)


def size(amount: float) -> str:
    """Bytes as a quantity, rounded up to two digits."""
    unit, name = (2**40, "Ti") if amount >= 2 * 2**40 else (2**30, "Gi")
    count = max(10.0 if name == "Gi" else 2.0, amount / unit)
    step = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return f"{math.ceil(count / step) * step:.0f}{name}"


Candidate = tuple[Run, Job, tuple[str, str], str]


def _candidates(choices: Choices, answers: Answers, sequence: int) -> Iterator[Candidate]:
    """Every way to share the model and to compute again, with one sample a pass, the plainest first."""
    facts = choices.facts(answers.cluster)
    defaults = choices.defaults(answers.launcher)
    spec = {
        **defaults.get("spec", {}),
        "model": answers.model,
        "nodes": answers.nodes,
        "gpusPerNode": facts["Cluster"]["spec"]["node"]["gpus"],
        "sequenceLength": sequence,
        "batch": {"micro": 1, "accumulation": 1},
    }
    strategies = STRATEGIES.get(answers.launcher, STRATEGIES[""])
    again = CHECKPOINTING if answers.launcher != "tfjob" else CHECKPOINTING[:1]
    for kind, policy in strategies:
        for recompute in again:
            shared = {"parallelism": kind} | ({"deepspeed": policy} if policy else {})
            environment = {"TRAINER_ACTIVATION_CHECKPOINTING": recompute}
            job = job_of({**defaults, "spec": {**spec, **shared}}, facts["Cluster"], facts["Fabric"], environment)
            try:
                yield run_of(job), job, (kind, policy), recompute
            except Unplannable as error:
                raise Refused(error.reason + (f": {error.help}" if error.help else "")) from None


def _fastest(candidates: list[Candidate], recipe: int, wish: int | None, answers: Answers) -> Candidate:
    """The plainest of the fastest, at the global batch that is wished for, or near that of the recipe."""
    batch = wish or recipe
    found: list[tuple[float, Candidate]] = []
    for run, job, strategy, checkpointing in candidates:
        for micro in MICRO_BATCHES:
            passes = max(1, round(batch / (micro * run.data)))
            tried = replace(run, micro=micro, accumulation=passes)
            is_near = wish is None and abs(tried.samples / batch - 1) <= FAR / 2
            if tried.samples != _nearest(batch, run.data) and not is_near:
                continue
            if total(tried) <= ROOM * tried.gpu.memory:
                found.append((plan.speed_of(tried).tokens_per_second, (tried, job, strategy, checkpointing)))
    if not found:
        raise Refused(_never_fits(candidates, answers))
    best = max(speed for speed, _ in found)
    return next(candidate for speed, candidate in found if speed >= (1 - 2 * WORTH) * best)


def _nearest(batch: int, ranks: int) -> int:
    return max(1, round(batch / ranks)) * ranks


def _never_fits(candidates: list[Candidate], answers: Answers) -> str:
    run = min((candidate[0] for candidate in candidates), key=total)
    said = (
        f"{answers.model} does not fit {answers.nodes} nodes of {answers.cluster}: with one sample a pass it takes "
        f"{total(run) / GIB:.1f} of {run.gpu.memory / GIB:.1f} GiB of a GPU"
    )
    for nodes in range(answers.nodes + 1, MOST_NODES + 1):
        larger = replace(run, gpus=nodes * run.gpus_per_node)
        if total(larger) <= ROOM * larger.gpu.memory:
            return f"{said}; it fits {nodes} nodes"
    return said


def _steps(run: Run, recipe: Recipe, wishes: Preferences, image: bool) -> int:
    if wishes.tokens is None:
        return max(LEAST_STEPS, rounded(recipe.samples / run.samples))
    each = run.samples if image else run.tokens
    return max(1, math.ceil(wishes.tokens / each))


def _why_shared(candidates: list[Candidate], chosen: Run) -> str:
    plain, _, strategy, _ = candidates[0]
    if (plain.sharding, plain.offload) == (chosen.sharding, chosen.offload):
        return ""
    least = min((run for run, _, other, _ in candidates if other == strategy), key=total)
    name = " ".join(part for part in strategy if part)
    if total(least) > ROOM * least.gpu.memory:
        return f"{name} takes {total(least) / GIB:.0f} of {least.gpu.memory / GIB:.0f} GiB, one sample a pass"
    return f"faster than {name}, which leaves less room for samples"


def _why_again(chosen: Run) -> str:
    if chosen.recompute == RECOMPUTE["none"]:
        return ""
    kept = replace(chosen, recompute=RECOMPUTE["none"])
    return f"without it {total(kept) / GIB:.0f} of {kept.gpu.memory / GIB:.0f} GiB"
