"""The room and the rhythm of the checkpoints that the repository's own trainer writes: CKP001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.plan.goodput import BYTES_PER_WEIGHT
from trainyard.plan.shapes import shapes
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import programs
from trainyard.rules.common.training_jobs import own_first, runs_the_trainer, spec_of
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping


@rule("CKP001", "checkpoint-room", Severity.WARNING, needs=Workload)
def checkpoint_room(workload: Workload) -> Iterator[Problem]:
    """The claim for checkpoints has no room for those that are kept and the one that is being written.

    The trainer saves 12 bytes a weight: fp32 weights and AdamW's two moments. Where storage enforces the size of a
    claim, a save fails when it is full, and after a few of them the run ends.

    Bad:
        kind: TrainingJob
        spec: {model: llama-3.1-8b, checkpoint: {size: 300Gi, keep: 3}}
    Good:
        kind: TrainingJob
        spec: {model: llama-3.1-8b, checkpoint: {size: 400Gi, keep: 3}}
    Near miss:
        kind: TrainingJob
        spec: {model: llama-3.1-8b, checkpoint: {size: 300Gi, keep: 2}}

    Source: trainer/checkpoint.py
    """
    spec = spec_of(workload)
    checkpoint = mapping(spec.get("checkpoint"))
    shape, size, keep = shapes().get(str(spec.get("model"))), quantity(checkpoint.get("size")), checkpoint.get("keep")
    if workload.training_job is None or shape is None or size is None or not runs_the_trainer(workload.training_job):
        return
    if not isinstance(keep, int) or isinstance(keep, bool):
        return
    one = BYTES_PER_WEIGHT * shape.parameters
    if (keep + 1) * one <= size:
        return
    job = workload.training_job
    spot, others = own_first(
        (
            job.at("spec", "checkpoint", "size", label=f"one of {shape.name} takes {one / 1e9:,.0f} GB"),
            job.at("spec", "checkpoint", "keep", label="kept"),
        ),
        workload.own,
    )
    yield Problem(
        f"{keep} checkpoints and the one being written take {(keep + 1) * one / 1e9:,.0f} GB, but the claim has "
        f"{float(size) / 1e9:,.0f} GB",
        spot,
        others,
        "ask for a larger claim, or keep fewer",
    )


def _of_programs(workload: Workload) -> Iterator[Problem]:
    """The same of programs with arguments of their own. One that saves by time or by epoch is none of them."""
    for program in programs(workload):
        every, steps = program.count("save_every"), program.count("steps")
        setting, length, when = (program.setting(role) for role in ("save_every", "steps", "save_when"))
        if setting is None or length is None or not every or not steps or every <= steps:
            continue
        if when is None or when.value == "steps":
            yield Problem(
                f"a checkpoint every {every} steps, but the run has {steps}: it ends before the first",
                setting.spot,
                (length.spot.saying("the whole run"),),
                "save more often",
            )


@rule("CKP002", "never-saved", Severity.WARNING, needs=Workload)
@once
def never_saved(workload: Workload) -> Iterator[Problem]:
    """The run ends before its first checkpoint is due.

    A pod that is lost a step before the end costs the whole run.

    Bad:
        kind: TrainingJob
        spec: {steps: 1000, checkpoint: {everySteps: 1000}}
    Good:
        kind: TrainingJob
        spec: {steps: 1000, checkpoint: {everySteps: 100}}
    Near miss:
        kind: TrainingJob
        spec: {steps: 1000, checkpoint: {everySteps: 999}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_steps=2000, --save_steps=5000]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_steps=2000, --save_steps=5000, --save_strategy=epoch]}]}}}

    Source: trainer/loop.py
    """
    yield from _of_programs(workload)
    spec = spec_of(workload)
    steps, every = spec.get("steps"), mapping(spec.get("checkpoint")).get("everySteps")
    if workload.training_job is None or not runs_the_trainer(workload.training_job):
        return
    if not isinstance(steps, int) or not isinstance(every, int) or every < steps:
        return
    job = workload.training_job
    spots = (job.at("spec", "checkpoint", "everySteps"), job.at("spec", "steps", label="the whole run"))
    spot, others = own_first(spots, workload.own)
    yield Problem(
        f"a checkpoint every {every} steps, but the run has {steps}: it ends before the first",
        spot,
        others,
        "save more often: tools/plan-job says how often is best",
    )
