"""What the Hugging Face Trainer and Accelerate demand of a DeepSpeed configuration that they fill in."""

import math
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, as_number, programs
from trainyard.rules.deepspeed.accelerated import launch_config
from trainyard.rules.deepspeed.configs import HUGGING_FACE, Config, readable
from trainyard.rules.deepspeed.versions import release, written
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_PAIRS = {
    "train_micro_batch_size_per_gpu": "micro",
    "gradient_accumulation_steps": "accumulation",
    "gradient_clipping": "clipping",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "scheduler.params.warmup_num_steps": "warmup_steps",
    "scheduler.params.total_num_steps": "steps",
}
"""Keys that the Trainer holds against its arguments, and the arguments' roles. train_batch_size is BAT003's."""
_OFTEN_CHANGED = ("learning_rate", "weight_decay")
"""Roles whose defaults scripts of one's own change in code."""
_BOTH_NEEDED = ((4, 30), (4, 33, 3))
"""From the first to before the second, transformers took no optimizer of DeepSpeed's without a scheduler of it."""
_IN_THE_FILE = (
    "gradient_accumulation_steps",
    "gradient_clipping",
    "mixed_precision",
    "offload_optimizer_device",
    "offload_optimizer_nvme_path",
    "offload_param_device",
    "offload_param_nvme_path",
    "zero3_save_16bit_model",
    "zero_stage",
)
"""Settings that Accelerate takes from the file once deepspeed_config_file names one."""
_KINDS = ("use_deepspeed", "use_fsdp", "multi_gpu", "cpu", "tpu")


@rule("DSP014", "deepspeed-differs-from-trainer", Severity.ERROR, needs=Workload)
@once
def deepspeed_differs_from_trainer(workload: Workload) -> Iterator[Problem]:
    """The DeepSpeed configuration and the arguments of the Hugging Face Trainer say different things.

    The Trainer compares the two and stops, after the model is loaded. An argument that is not given has its default:
    fp16 that is enabled in the file needs --fp16 as well. Where the file says "auto", the argument counts.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"fp16": {"enabled": true}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/o, --per_device_train_batch_size=4, --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"fp16": {"enabled": "auto"}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/o, --per_device_train_batch_size=4, --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"bf16": {"enabled": true}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/o, --per_device_train_batch_size=4, --bf16,
          --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://huggingface.co/docs/transformers/deepspeed
    """
    for config, program in _trained(workload):
        for path, role in _PAIRS.items():
            value, setting = as_number(config.written(path)), program.setting(role)
            sure = _has_defaults(program) and (role not in _OFTEN_CHANGED or program.is_named)
            argument = program.number(role) if setting is not None or sure else None
            if value is None or argument is None or math.isclose(value, argument, rel_tol=1e-9, abs_tol=1e-12):
                continue
            if role in ("warmup_steps", "steps") and (setting is None or argument < 1):
                continue
            name = program.trainer.roles[role][0]
            by = "" if setting is not None else ", its default"
            yield Problem(
                f"{path} is {value:g}, but --{name} is {argument:g}{by}",
                config.at(path),
                related=(setting.spot,) if setting is not None else (),
                help=f'write "auto" in the file, or --{name} {value:g}',
            )
        for name in ("fp16", "bf16"):
            yield from _precision(config, program, name)


@rule("DSP015", "deepspeed-scheduler-missing", Severity.ERROR, needs=Workload)
@once
def deepspeed_scheduler_missing(workload: Workload) -> Iterator[Problem]:
    """The DeepSpeed configuration has an optimizer and no scheduler, which this transformers does not take.

    Releases from 4.30 to 4.33.2 stop at it; before and after, the Trainer's own scheduler is used. The release is read
    where the container installs it.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"optimizer": {"type": "AdamW"}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, command: [sh, -c, "pip install transformers==4.30.2
          && torchrun run_clm.py --output_dir /o --deepspeed /ds/ds.json"],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"zero_optimization": {"stage": 2}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/o, --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"optimizer": {"type": "AdamW"}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/o, --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://github.com/huggingface/transformers/issues/24359
    """
    for config, _ in _trained(workload):
        has = release(workload, config.container, "transformers")
        if has is None or not _BOTH_NEEDED[0] <= has < _BOTH_NEEDED[1]:
            continue
        if config.given("optimizer") and not config.given("scheduler"):
            yield Problem(
                f"transformers {written(has)} takes an optimizer of DeepSpeed's only beside a scheduler of it",
                config.at("optimizer", label="no scheduler beside it"),
                help="add a scheduler, remove the optimizer, or install transformers 4.33.3 or newer",
            )


@rule("DSP020", "accelerate-setting-beside-file", Severity.ERROR, needs=Workload)
@once
def accelerate_setting_beside_file(workload: Workload) -> Iterator[Problem]:
    """Accelerate's configuration names a DeepSpeed file and says again what stands in it.

    Accelerate stops: batch, clipping, stage and offload belong into the file then. Its launcher also takes one way of
    running only, so that `--use_deepspeed` cannot stand beside `--multi_gpu` or `--use_fsdp`; and the Hugging Face
    Trainer takes --deepspeed or --fsdp, not both.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [accelerate, launch, --use_deepspeed,
          --multi_gpu], args: [train.py]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [accelerate, launch, --use_deepspeed],
          args: [train.py]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [accelerate, launch, --multi_gpu,
          --mixed_precision=bf16], args: [train.py]}]}}}

    Source: https://huggingface.co/docs/accelerate/usage_guides/deepspeed
    """
    for program in programs(workload):
        yield from _said_twice(workload, program)
        yield from _two_kinds(program)


def _said_twice(workload: Workload, program: Program) -> Iterator[Problem]:
    found = launch_config(workload, program.pod_set, program.container)
    section = mapping(found.data.get("deepspeed_config")) if found is not None else {}
    twice = [name for name in _IN_THE_FILE if name in section]
    if found is not None and twice and "deepspeed_config_file" in section:
        spot = found.spot.below("deepspeed_config")
        yield Problem(
            f"{', '.join(twice)} cannot be given together with deepspeed_config_file",
            spot.below(twice[0]),
            related=(spot.below("deepspeed_config_file"),),
            help="say it in the DeepSpeed file alone",
        )


def _two_kinds(program: Program) -> Iterator[Problem]:
    launch = program.container.launch
    if launch is not None and launch.launcher == "accelerate":
        kinds = [
            (name, option) for name in _KINDS if (option := launch.option(name)) is not None and option.value is True
        ]
        if len(kinds) > 1:
            yield Problem(
                f"accelerate takes one of {' and '.join('--' + name for name, _ in kinds)}",
                kinds[1][1].spot,
                related=(kinds[0][1].spot,),
                help="keep one of them",
            )
    fsdp, deepspeed = program.given("fsdp"), program.given("deepspeed")
    both = fsdp is not None and deepspeed is not None and isinstance(deepspeed.value, str)
    if both and fsdp is not None and deepspeed is not None and fsdp.value and program.trainer.name == HUGGING_FACE:
        yield Problem(
            "the Hugging Face Trainer takes --deepspeed or --fsdp, not both",
            fsdp.spot,
            related=(deepspeed.spot,),
            help="keep one of them",
        )


def _trained(workload: Workload) -> Iterator[tuple[Config, Program]]:
    """Configurations that the Hugging Face Trainer reads, with its arguments."""
    for config in readable(workload):
        for program in programs(workload):
            if config.reader == HUGGING_FACE and program.container is config.container:
                yield config, program


def _has_defaults(program: Program) -> bool:
    """Whether arguments that are not given have the Trainer's own defaults, as far as its arguments tell."""
    needed = (program.given("output_dir"), program.setting("micro"))
    elsewhere = program.given("config") is not None or any("trl" in word.text for word in program.words)
    return None not in needed and not elsewhere and program.trainer.name == HUGGING_FACE


def _precision(config: Config, program: Program, name: str) -> Iterator[Problem]:
    enabled = config.written(f"{name}.enabled")
    flag = program.flag(name) or program.given(f"{name}_full_eval")
    if enabled is True and flag is None and (_has_defaults(program) or program.flag(_OTHER[name]) is not None):
        yield Problem(
            f"{name} is enabled here, but the Trainer is not given --{name}",
            config.at(f"{name}.enabled"),
            help=f'add --{name}, or write "auto"',
        )
    elif enabled is False and flag is not None:
        yield Problem(
            f"{name} is disabled here, but the Trainer is given --{name}",
            config.at(f"{name}.enabled"),
            related=(flag.spot,),
            help='write "auto"',
        )


_OTHER = {"fp16": "bf16", "bf16": "fp16"}
