"""The numbers of a TrainingJob against one another."""

import math
from collections.abc import Iterator
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.objects.unit import Unit
from trainyard.rules.common.programs import as_number
from trainyard.rules.common.training_jobs import own_first, runs_the_trainer, sets
from trainyard.rules.registry import Problem, rule
from trainyard.yaml.fieldpath import lookup

_TOLERANCE = 1e-6


@rule("BAT001", "batch-identity", Severity.ERROR, needs=Unit, fix="unsafe")
def batch_identity(unit: Unit) -> Iterator[Problem]:
    """The global batch is not micro-batch x accumulation x data-parallel ranks.

    Each data-parallel rank takes `accumulation` micro-batches a step. A global batch that says otherwise trains with
    another batch than the paper, the schedule and the learning rate were made for. A job whose own program is not known
    to read the batch, and whose job.yaml sets none, is left alone.

    Bad:
        kind: TrainingJob
        spec: {batch: {global: 512}}
    Good:
        kind: TrainingJob
        spec: {batch: {accumulation: 4, global: 512}}
    Near miss:
        kind: TrainingJob
        spec: {batch: {micro: 8, accumulation: 1, global: 256}}

    Source: https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters
    """
    job = unit.fact("TrainingJob")
    if job is None:
        return
    micro, accumulation, whole, nodes, gpus = (
        _count(job, *path)
        for path in (("batch", "micro"), ("batch", "accumulation"), ("batch", "global"), ("nodes",), ("gpusPerNode",))
    )
    if not (micro and accumulation and whole and nodes and gpus):
        return
    ranks = nodes * gpus
    product = micro * accumulation * ranks
    if product == whole or (unit.own and not sets(unit.own, "batch") and not runs_the_trainer(job)):
        return
    spots = (
        job.at("spec", "batch", "global", label=f"{product} is what the ranks take"),
        job.at("spec", "batch", "accumulation", label="micro-batches of a step"),
        job.at("spec", "batch", "micro", label="samples of a micro-batch"),
        job.at("spec", "nodes", label=f"x {gpus} = {ranks} ranks"),
        job.at("spec", "gpusPerNode", label=f"x {nodes} = {ranks} ranks"),
    )
    yield Problem(
        f"micro {micro} x accumulation {accumulation} x ranks {ranks} = {product}, but global is {whole}",
        own_first(spots, unit.own)[0],
        help=_batch_remedy(whole, micro, ranks, product),
        fix=put(spots[0], product).saying(f"set global to {product}").unsafe(),
    )


@rule("BAT002", "learning-rate-scaling", Severity.ERROR, needs=Unit, fix="unsafe")
def learning_rate_scaling(unit: Unit) -> Iterator[Problem]:
    """The learning rate does not follow from the scaling rule that the job declares.

    `learningRateScaling` names a rule, a base learning rate and the batch that it was tuned at. Linear multiplies the
    rate by global / base batch, sqrt by the root of that. A rate that was left over from another batch diverges or
    wastes the run.

    Bad:
        kind: TrainingJob
        spec: {learningRate: 0.00002, learningRateScaling: {rule: linear, baseLearningRate: 0.00002, baseBatch: 64}}
    Good:
        kind: TrainingJob
        spec: {learningRate: 0.00008, learningRateScaling: {rule: linear, baseLearningRate: 0.00002, baseBatch: 64}}
    Near miss:
        kind: TrainingJob
        spec: {learningRate: 0.00004, learningRateScaling: {rule: sqrt, baseLearningRate: 0.00002, baseBatch: 64}}

    Source: https://arxiv.org/abs/1706.02677
    """
    job = unit.fact("TrainingJob")
    if job is None:
        return
    name = _field(job, "learningRateScaling", "rule")
    rate, base, batch = (
        _number(job, *path)
        for path in (
            ("learningRate",),
            ("learningRateScaling", "baseLearningRate"),
            ("learningRateScaling", "baseBatch"),
        )
    )
    whole = _count(job, "batch", "global")
    if rate is None or not base or not batch or not whole or name not in ("linear", "sqrt"):
        return
    factor = whole / batch if name == "linear" else math.sqrt(whole / batch)
    if not math.isclose(rate, base * factor, rel_tol=_TOLERANCE):
        ratio = f"{whole} / {batch:g}" if name == "linear" else f"sqrt({whole} / {batch:g})"
        spots = (job.at("spec", "learningRate"), job.at("spec", "learningRateScaling", label="the rule"))
        spot, others = own_first(spots, unit.own)
        yield Problem(
            f"the {name} rule gives {base:g} x {ratio} = {base * factor:g}, but learningRate is {rate:g}",
            spot,
            related=others,
            help=f"set learningRate to {base * factor:g}, or correct the rule",
            fix=put(spots[0], float(f"{base * factor:.6g}")).unsafe(),
        )


@rule("BAT005", "schedule-longer-than-run", Severity.ERROR, needs=Unit)
def schedule_longer_than_run(unit: Unit) -> Iterator[Problem]:
    """The warm-up is as long as the run, or longer.

    The learning rate rises to the last step and never reaches the schedule that was asked for.

    Bad:
        kind: TrainingJob
        spec: {warmupSteps: 2000, steps: 1000}
    Good:
        kind: TrainingJob
        spec: {warmupSteps: 100, steps: 1000}
    Near miss:
        kind: TrainingJob
        spec: {warmupSteps: 999, steps: 1000}

    Source: https://arxiv.org/abs/1706.02677
    """
    job = unit.fact("TrainingJob")
    warmup, steps = (_count(job, name) if job else None for name in ("warmupSteps", "steps"))
    if job is not None and warmup and steps and warmup >= steps:
        spots = (job.at("spec", "warmupSteps"), job.at("spec", "steps", label="the whole run"))
        spot, others = own_first(spots, unit.own)
        yield Problem(
            f"warm-up takes {warmup} steps, but the run has {steps}",
            spot,
            related=others,
            help="shorten the warm-up or lengthen the run",
        )


def _field(job: Object, *path: str) -> Any:
    try:
        return lookup(job.data, ("spec", *path))
    except KeyError:
        return None


def _count(job: Object, *path: str) -> int | None:
    value = _field(job, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(job: Object, *path: str) -> float | None:
    """A number of the job; PyYAML reads 2e-5 as text, which counts as the number that it is."""
    return as_number(_field(job, *path))


_MOST_MICRO = 65_536
"""The largest micro-batch that is proposed."""


def _batch_remedy(whole: int, micro: int, ranks: int, product: int) -> str:
    """What to write so that the identity holds: another global batch, or the same one in parts that fit the ranks."""
    if whole % ranks:
        return f"set global to {product}; {whole} cannot be shared by {ranks} ranks"
    share = whole // ranks
    fitting = max(size for size in range(1, min(micro, share, _MOST_MICRO) + 1) if share % size == 0)
    return f"set global to {product}, or keep {whole} with micro {fitting} and accumulation {share // fitting}"
