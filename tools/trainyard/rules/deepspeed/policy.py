"""What our trainer demands of a DeepSpeed configuration."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, programs
from trainyard.rules.deepspeed.configs import TRAINYARD, readable
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload

_TAKEN = ("optimizer", "scheduler")
_FILLED = {
    "train_batch_size": "global",
    "train_micro_batch_size_per_gpu": "micro",
    "gradient_accumulation_steps": "accumulation",
    "gradient_clipping": "clipping",
}


@rule("DSP021", "deepspeed-policy-differs", Severity.ERROR, needs=Workload)
@once
def deepspeed_policy_differs(workload: Workload) -> Iterator[Problem]:
    """The ZeRO policy of our trainer says what job.yaml says, and says it otherwise.

    The trainer takes the policy from the file, and batch, clipping, precision, optimizer and schedule from its own
    settings. It stops where the file holds an optimizer or a scheduler, or another number than its own.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {zero.json: '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 8}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, env: [{name: TRAINER_DEEPSPEED_CONFIG, value: /ds/zero.json}],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {zero.json: '{"zero_optimization": {"stage": 2}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, env: [{name: TRAINER_DEEPSPEED_CONFIG, value: /ds/zero.json}],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {zero.json: '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, env: [{name: TRAINER_DEEPSPEED_CONFIG, value: /ds/zero.json}],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: base/zero/
    """
    for config in readable(workload):
        program = next((each for each in programs(workload) if each.container is config.container), None)
        if config.reader != TRAINYARD or program is None:
            continue
        for name in _TAKEN:
            if config.given(name):
                yield Problem(
                    f"the trainer has settings of its own for the {name}, and refuses this one",
                    config.at(name),
                    help="remove it here",
                )
        for path, said, setting in _told(program):
            value = config.written(path)
            if value is not None and value != "auto" and said is not None and value != said:
                yield Problem(
                    f"{path} is {_text(value)} here, but {_text(said)} by the trainer's settings",
                    config.at(path),
                    related=() if setting is None else (setting.spot,),
                    help="remove it here: the trainer fills it in",
                )


def _told(program: Program) -> Iterator[tuple[str, object, Setting | None]]:
    """Keys that the trainer fills in, with what it puts there."""
    for path, role in _FILLED.items():
        yield path, program.number(role), program.setting(role)
    precision = program.setting("precision")
    for name in ("bf16", "fp16") if precision is not None else ():
        yield f"{name}.enabled", precision is not None and precision.value == name, precision


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
