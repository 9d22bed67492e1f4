"""Advice on learning rate and clipping, and arguments of schedules that contradict each other."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, programs
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload
from trainyard.workload.plain import digits, mapping

_STRATEGIES = {"save": ("save_strategy",), "eval": ("eval_strategy", "evaluation_strategy")}
_DEFAULTS = {"save": "steps", "eval": "no"}
_MUCH = 2


@rule("BAT014", "scaled-without-warm-up", Severity.INFO, needs=Unit)
def scaled_without_warm_up(unit: Unit) -> Iterator[Problem]:
    """The learning rate is scaled up to a larger batch, and there is no warm-up.

    The linear rule holds once the weights change slowly. In the first steps they do not, and a rate that was scaled up
    twofold or more diverges there: the paper that states the rule raises the rate over the first epochs.

    Bad:
        kind: TrainingJob
        spec: {warmupSteps: 0, learningRate: 0.00008,
          learningRateScaling: {rule: linear, baseLearningRate: 0.00002, baseBatch: 64}}
    Good:
        kind: TrainingJob
        spec: {warmupSteps: 100, learningRate: 0.00008,
          learningRateScaling: {rule: linear, baseLearningRate: 0.00002, baseBatch: 64}}
    Near miss:
        kind: TrainingJob
        spec: {warmupSteps: 0, learningRate: 0.00002,
          learningRateScaling: {rule: linear, baseLearningRate: 0.00002, baseBatch: 256}}

    Source: https://arxiv.org/abs/1706.02677
    """
    job = unit.fact("TrainingJob")
    spec = mapping(job.data.get("spec")) if job is not None else {}
    batch, base = mapping(spec.get("batch")).get("global"), mapping(spec.get("learningRateScaling")).get("baseBatch")
    if job is None or spec.get("warmupSteps") != 0 or not isinstance(batch, int) or not isinstance(base, int):
        return
    if base > 0 and batch >= _MUCH * base:
        yield Problem(
            f"the batch is {batch / base:g} times that of the base learning rate, and there is no warm-up",
            job.at("spec", "warmupSteps"),
            related=(job.at("spec", "learningRateScaling", "baseBatch"),),
            help="set warmupSteps to a few hundred",
        )


@rule("BAT015", "clipping-off", Severity.INFO, needs=Workload)
@once
def clipping_off(workload: Workload) -> Iterator[Problem]:
    """Gradients are not clipped.

    One bad batch then moves the weights as far as it likes. Most recipes for language models clip at a norm of 1.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_grad_norm=0]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --max_grad_norm=1]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4]}]}}}

    Source: https://arxiv.org/abs/1211.5063
    """
    for program in programs(workload):
        setting = program.setting("clipping")
        if setting is not None and program.number("clipping") == 0:
            yield Problem("gradients are not clipped", setting.spot, help="clip at a norm of 1.0")


@rule("BAT016", "trainer-arguments-conflict", Severity.ERROR, needs=Workload)
@once
def trainer_arguments_conflict(workload: Workload) -> Iterator[Problem]:
    """Arguments of the Hugging Face Trainer or of Megatron contradict each other.

    The program stops when it reads them, on every rank: a warm-up ratio outside 0 to 1, the best model to be loaded at
    the end of a run that saves and evaluates at different times, a length in iterations and in samples.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --load_best_model_at_end, --eval_strategy=epoch]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --load_best_model_at_end, --eval_strategy=epoch, --save_strategy=epoch]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --per_device_train_batch_size=4,
          --eval_strategy=epoch]}]}}}

    Source: https://huggingface.co/docs/transformers/main_classes/trainer
    """
    for program in programs(workload):
        if program.trainer.name == "hugging-face":
            yield from _best_model(program)
        if program.trainer.name in ("hugging-face", "megatron"):
            yield from _ratio(program)
        if program.trainer.name == "megatron":
            yield from _two_units(program)


def _best_model(program: Program) -> Iterator[Problem]:
    best = program.given("load_best_model_at_end")
    if best is None or str(best.value).lower() not in ("true", "1") or program.given("config") is not None:
        return
    given = {name: program.given(*names) for name, names in _STRATEGIES.items()}
    save, evaluate = (_strategy(given[name], _DEFAULTS[name]) for name in ("save", "eval"))
    if save in ("", "best") or not evaluate:
        return
    if save != evaluate:
        yield Problem(
            f"--load_best_model_at_end needs one strategy, but saves are by {save} and evaluations by {evaluate}",
            best.spot,
            related=tuple(setting.spot for setting in given.values() if setting is not None),
            help="give --save_strategy and --eval_strategy the same value",
        )
        return
    steps = {name: program.given(f"{name}_steps") for name in ("save", "eval")}
    counts = [None if setting is None else str(setting.value) for setting in steps.values()]
    numbers = [number for count in counts if (number := digits(count)) is not None]
    if save == "steps" and len(numbers) == 2 and numbers[1] and numbers[0] % numbers[1]:
        yield Problem(
            f"--save_steps {numbers[0]} is not a multiple of --eval_steps {numbers[1]}, as the best model needs",
            steps["save"].spot if steps["save"] is not None else best.spot,
            related=(best.spot,),
            help="save at multiples of --eval_steps",
        )


def _strategy(setting: Setting | None, default: str) -> str:
    return default if setting is None else str(setting.value or "").lower()


def _ratio(program: Program) -> Iterator[Problem]:
    ratio, setting = program.number("warmup_ratio"), program.setting("warmup_ratio")
    if ratio is not None and setting is not None and not 0 <= ratio <= 1:
        yield Problem(
            f"the warm-up is {ratio:g} of the run, but must be from 0 to 1",
            setting.spot,
            help="write a part of the run, such as 0.03",
        )


def _two_units(program: Program) -> Iterator[Problem]:
    for one, other in (
        ("steps", "samples_in_all"),
        ("decay_steps", "decay_samples"),
        ("warmup_steps", "warmup_samples"),
        ("steps", "decay_samples"),
        ("samples_in_all", "decay_steps"),
    ):
        first, second = program.setting(one), program.setting(other)
        if first is not None and second is not None:
            names = [program.trainer.roles[role][0].replace("_", "-") for role in (one, other)]
            yield Problem(
                f"Megatron counts in iterations or in samples, but gets --{names[0]} and --{names[1]}",
                second.spot,
                related=(first.spot,),
                help="keep one of them",
            )
            return
