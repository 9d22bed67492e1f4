"""What a training program is told, held against its ranks and against job.yaml."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, as_number, programs
from trainyard.rules.common.world import Split, ranks, split
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload
from trainyard.yaml.fieldpath import lookup


@rule("BAT007", "setting-shadowed", Severity.WARNING, needs=Workload)
@once
def setting_shadowed(workload: Workload) -> Iterator[Problem]:
    """The program gets another value than job.yaml says: a variable or an argument stands in front of it.

    The wiring writes the settings of job.yaml as TRAINER_* variables. `spec.env`, a patch with `env`, and words
    `name=value` behind the program are read later, and the last one wins. Who reads job.yaml believes the first.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: TRAINER_MICRO_BATCH, value: "8"}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: TRAINER_COMPILE, value: "true"}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: TRAINER_MICRO_BATCH, value: "4"}]}]}}}

    Source: base/wiring/config-map.yaml
    """
    job = workload.training_job
    for program in programs(workload) if job is not None else ():
        for name, path in program.trainer.wired.items():
            found, said = program.given(name), _said(job, path)
            if job is None or found is None or said is None or _is_wired(found, job) or _equal(found.value, said):
                continue
            yield Problem(
                f"{name} is {found.value} in the end, but job.yaml says {path} {said}",
                found.spot.saying("wins"),
                related=(job.at("spec", *path.split("."), label="has no effect"),),
                help=f"remove it here, and set {path} in job.yaml",
            )


@rule("BAT008", "program-batch-identity", Severity.ERROR, needs=Workload)
@once
def program_batch_identity(workload: Workload) -> Iterator[Problem]:
    """The global batch that the program is told is not micro-batch x accumulation x data-parallel ranks.

    A program that is told all three stops, or trains with another batch than it says. One that derives its accumulation
    from the global batch, as Megatron and torchtitan do, stops where that is not a whole number.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size=8,
          --micro-batch-size=3, --global-batch-size=256]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size=8,
          --micro-batch-size=4, --global-batch-size=256]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [train.py, --train_batch_size=3,
          --gradient_accumulation_steps=2]}]}}}

    Source: https://docs.nvidia.com/megatron-core/developer-guide/latest/index.html
    """
    world = ranks(workload)
    for program in programs(workload) if world is not None else ():
        divided = split(program, world or 0)
        if divided is None or divided.data_parallel is None:
            continue
        yield from _shared_accumulation(program, world or 0)
        message, setting = _disagreement(program, divided), program.setting("global")
        job = workload.training_job
        if message and setting is not None and not (job is not None and _all_wired(program, job)):
            others = (program.setting(role) for role in ("micro", "accumulation"))
            yield Problem(
                message,
                setting.spot,
                related=tuple(other.spot for other in others if other is not None)
                + tuple(part.spot.saying(f"{name} {part.value}") for name, part in divided.parts),
                help="choose a global batch that its parts divide",
            )


@rule("BAT009", "model-parallel-ranks", Severity.ERROR, needs=Workload)
@once
def model_parallel_ranks(workload: Workload) -> Iterator[Problem]:
    """The ranks do not divide by the ranks that one copy of the model takes.

    Tensor, pipeline and context parallelism put a copy of the model on their product of ranks. A number of ranks that
    is not a multiple of it leaves some over, and the program stops before the first step.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size=8,
          --pipeline-model-parallel-size=3]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size=8,
          --pipeline-model-parallel-size=2]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --tensor-model-parallel-size=8,
          --pipeline-model-parallel-size=4]}]}}}

    Source: https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/parallelism-guide.html
    """
    world = ranks(workload)
    for program in programs(workload) if world is not None else ():
        divided = split(program, world or 0)
        if divided is None or divided.data_parallel is not None:
            continue
        product = " x ".join(f"{name} {setting.value}" for name, setting in divided.parts)
        product += f" = {divided.size}" if len(divided.parts) > 1 else ""
        yield Problem(
            f"{product} ranks hold one copy of the model, but {divided.ranks} ranks are not a multiple of that",
            divided.parts[-1][1].spot,
            related=tuple(setting.spot for _, setting in divided.parts[:-1]),
            help="choose sizes whose product divides the ranks",
        )


@rule("BAT010", "program-warm-up-too-long", Severity.ERROR, needs=Workload)
@once
def program_warm_up_too_long(workload: Workload) -> Iterator[Problem]:
    """The program's warm-up is as long as its run or its decay, or longer.

    The learning rate rises to the last step. Megatron refuses it; others train without ever reaching the peak.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_steps=1000, --warmup_steps=2000]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_steps=2000, --warmup_steps=100]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_steps=-1, --warmup_steps=2000]}]}}}

    Source: https://arxiv.org/abs/1706.02677
    """
    job = workload.training_job
    for program in programs(workload):
        for warm, lengths in (
            ("warmup_steps", ("decay_steps", "steps")),
            ("warmup_samples", ("decay_samples", "samples_in_all")),
        ):
            warmup, setting = program.count(warm), program.setting(warm)
            ends = [(name, program.count(name)) for name in lengths]
            end, total = next(((name, count) for name, count in ends if count), ("", None))
            other = program.setting(end) if end else None
            if setting is None or other is None or not warmup or not total or warmup < total:
                continue
            if job is not None and _is_wired(setting, job) and _is_wired(other, job):
                continue
            unit, whole = (
                ("samples", "schedule") if "samples" in warm else ("steps", "decay" if "decay" in end else "run")
            )
            yield Problem(
                f"warm-up takes {warmup} {unit}, but the {whole} has {total}",
                setting.spot,
                related=(other.spot.saying(f"the whole {whole}"),),
                help="shorten the warm-up or lengthen the run",
            )


@rule("BAT011", "fewer-samples-than-batch", Severity.ERROR, needs=Workload)
@once
def fewer_samples_than_batch(workload: Workload) -> Iterator[Problem]:
    """The program drops the last batch that is not full, and its samples do not fill one.

    Each rank then has an empty loader: the program ends without a step, or divides by zero.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_train_samples=100, --dataloader_drop_last]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_train_samples=1000, --dataloader_drop_last]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_train_samples=100]}]}}}

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    world = ranks(workload)
    for program in programs(workload) if world is not None else ():
        samples, micro, drops = program.count("samples"), program.count("micro"), program.setting("drop_last")
        divided, setting = split(program, world or 0), program.setting("samples")
        if not samples or not micro or setting is None or divided is None or not divided.data_parallel:
            continue
        needed = micro * divided.data_parallel
        if drops is not None and str(drops.value).lower() in ("true", "1", "yes") and samples < needed:
            yield Problem(
                f"{samples} samples do not fill one batch of micro {micro} x {divided.text} = {needed}",
                setting.spot,
                related=(drops.spot.saying("what is left over is dropped"),),
                help="take more samples or fewer ranks, or keep the last batch",
            )


def _disagreement(program: Program, divided: Split) -> str:
    batch, micro, accumulation = (program.count(role) for role in ("global", "micro", "accumulation"))
    copies = divided.data_parallel or 1
    if not batch or (not micro and not program.known):
        return ""
    told = program.setting("accumulation") is not None or program.trainer.variables
    if micro and accumulation and told and not program.trainer.keeps_global:
        product = micro * accumulation * copies
        text = f"micro {micro} x accumulation {accumulation} x {divided.text} = {product}, but global is {batch}"
        return "" if product == batch else text
    divisor = (micro or 1) * copies
    if batch % divisor == 0:
        return ""
    by = f"(micro {micro} x {divided.text})" if micro else divided.text
    return f"global {batch} / {by} = {batch / divisor:g}, but it must be a whole number"


def _shared_accumulation(program: Program, world: int) -> Iterator[Problem]:
    """nanoGPT divides its accumulation among the ranks."""
    steps, setting = program.count("accumulation"), program.setting("accumulation")
    if program.trainer.accumulation_shared and steps and setting is not None and steps % world:
        yield Problem(
            f"accumulation {steps} / ranks {world} = {steps / world:g}, but each rank takes whole passes",
            setting.spot,
            help="choose a multiple of the ranks",
        )


def _said(job: Object | None, path: str) -> object:
    try:
        found = None if job is None else lookup(job.data, ("spec", *path.split(".")))
    except KeyError:
        return None
    return None if isinstance(found, dict | list) else found


def _is_wired(setting: Setting, job: Object) -> bool:
    """Whether a setting is the one that the wiring writes: other rules hold it against job.yaml."""
    return setting.spot.object.kind == "ConfigMap" and setting.spot.object.name == f"{job.name}-trainer"


def _all_wired(program: Program, job: Object) -> bool:
    found = (program.setting(role) for role in ("micro", "accumulation", "global"))
    return all(setting is None or _is_wired(setting, job) for setting in found)


def _equal(found: object, said: object) -> bool:
    one, other = as_number(found), as_number(said)
    return one == other if one is not None and other is not None else str(found) == str(said)
