"""Optimizers and schedulers that a configuration names."""

from collections.abc import Iterator
from typing import Any

from trainyard.catalogues import deepspeed as facts
from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import Config, readable
from trainyard.rules.deepspeed.values import as_number
from trainyard.rules.deepspeed.versions import parsed, release
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_STRICT_STEPS = (0, 19, 6)


@rule("DSP011", "deepspeed-optimizer-refused", Severity.ERROR, needs=Workload)
@once
def deepspeed_optimizer_refused(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed does not know the optimizer, or does not combine it with ZeRO unless it is told to.

    Its own optimizers are found whatever their capitals, those of torch.optim by their exact name. With ZeRO only some
    are tried: for the others zero_allow_untested_optimizer must be true.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 1}, "optimizer": {"type": "SGD"}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW"}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "zero_optimization": {"stage": 1}, "optimizer": {"type": "SGD"},
            "zero_allow_untested_optimizer": true}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#optimizer-parameters
    """
    known = facts.optimizers()
    for config in readable(workload):
        written, name, stage = config.written("optimizer.type"), config.value("optimizer.type"), _stage(config)
        if not isinstance(written, str) or not isinstance(name, str) or name == "auto":
            continue
        spot = config.at("optimizer.type")
        has = release(workload, config.container, "deepspeed")
        gone = known["removed"].get(name)
        if name not in known["known"] and name not in known["torch"]:
            yield Problem(
                f"neither DeepSpeed nor torch.optim has an optimizer {written}",
                spot,
                help="name one of DeepSpeed's, or a class of torch.optim in its own capitals",
            )
        elif gone and has is not None and has >= parsed(gone):
            yield Problem(f"DeepSpeed has no {written} since {gone}", spot, help="use AdamW")
        elif stage and gone is None and not _with_zero(name) and not _is_allowed(config):
            yield Problem(
                f"ZeRO stage {stage} with {written} is untested, and DeepSpeed refuses it",
                spot,
                related=(config.at("zero_optimization.stage"),),
                help="set zero_allow_untested_optimizer to true, or use AdamW",
            )


@rule("DSP012", "deepspeed-scheduler-refused", Severity.ERROR, needs=Workload)
@once
def deepspeed_scheduler_refused(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed does not know the scheduler, or cannot make it of these parameters.

    The parameters go straight to the scheduler's constructor: one that it does not have, or one that is missing, is a
    TypeError, and a warm-up of no steps is refused.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "scheduler": {"type": "StepLR", "params": {"step_size": 100}}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://deepspeed.readthedocs.io/en/latest/schedulers.html
    """
    known = facts.schedulers()
    for config in readable(workload):
        name, params = config.written("scheduler.type"), mapping(config.written("scheduler.params"))
        if not isinstance(name, str):
            continue
        if name not in known["known"]:
            if name not in known["torch"]:
                yield Problem(
                    f"neither DeepSpeed nor torch.optim.lr_scheduler has a scheduler {name}",
                    config.at("scheduler.type"),
                    help=f"name one of {', '.join(known['known'])}",
                )
            continue
        yield from _parameters(workload, config, name, params)


@rule("DSP013", "deepspeed-warm-up-too-long", Severity.ERROR, needs=Workload)
@once
def deepspeed_warm_up_too_long(workload: Workload) -> Iterator[Problem]:
    """The scheduler's warm-up is as long as its whole schedule, or longer.

    The learning rate rises to the last step and never decays.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000,
            "warmup_num_steps": 2000}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2000,
            "warmup_num_steps": 100}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2000}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://deepspeed.readthedocs.io/en/latest/schedulers.html
    """
    for config in readable(workload):
        total, warmup = (
            as_number(config.written(f"scheduler.params.{name}")) for name in ("total_num_steps", "warmup_num_steps")
        )
        if total is not None and warmup is not None and 0 < total <= warmup:
            yield Problem(
                f"warm-up takes {warmup:g} steps, but the schedule has {total:g}",
                config.at("scheduler.params.warmup_num_steps"),
                related=(config.at("scheduler.params.total_num_steps", label="the whole schedule"),),
                help="shorten the warm-up or lengthen the schedule",
            )


def _parameters(workload: Workload, config: Config, name: str, params: Any) -> Iterator[Problem]:
    known = facts.schedulers()
    shape = known["known"][name]
    for given, value in params.items():
        spot = config.at(f"scheduler.params.{given}")
        if given not in shape["takes"] and given not in known["always"]:
            yield Problem(f"{name} has no parameter {given}", spot, help=f"it takes {', '.join(shape['takes'])}")
        elif given in known["positive"] and value != "auto" and not _is_positive(workload, config, value):
            yield Problem(
                f"{given} must be a whole number above 0, not {value}", spot, help="write the number of steps"
            )
    for needed in shape.get("needs", ()):
        if needed not in params:
            yield Problem(
                f"{name} needs {needed}",
                config.at("scheduler.params" if params else "scheduler", label="not given"),
                help=f"add {needed}",
            )


def _is_positive(workload: Workload, config: Config, value: Any) -> bool:
    """A number of steps; releases before 0.19.6 take one that is none for two."""
    has = release(workload, config.container, "deepspeed")
    if has is not None and has < _STRICT_STEPS:
        return True
    number = None if isinstance(value, bool | str) else as_number(value)
    return number is not None and number > 0 and (has is None or isinstance(value, int))


def _with_zero(name: str) -> bool:
    known = facts.optimizers()
    return name in known["with_zero"] if name in known["known"] else name in known["torch_with_zero"]


def _is_allowed(config: Config) -> bool:
    return config.value("zero_allow_untested_optimizer") is True


def _stage(config: Config) -> int:
    stage = config.value("zero_optimization.stage")
    return stage if isinstance(stage, int) and not isinstance(stage, bool) else 0
