"""Values that somebody else was to fill in."""

from collections.abc import Iterator
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import ACCELERATE, NAMES, Config, readable
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("DSP007", "deepspeed-auto-unfilled", Severity.ERROR, needs=Workload)
@once
def deepspeed_auto_unfilled(workload: Workload) -> Iterator[Problem]:
    """A value of the DeepSpeed configuration is "auto", and nobody fills it in.

    The Hugging Face Trainer and Accelerate put their own arguments in place of "auto", each for its own list of keys.
    DeepSpeed knows the word in its checked sections only, where it means the default. Elsewhere it computes with it: a
    program that hands the file to deepspeed.initialize, as one with --deepspeed_config does, stops.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_micro_batch_size_per_gpu": "auto"}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --output_dir=/checkpoints, --deepspeed=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://huggingface.co/docs/transformers/deepspeed
    """
    for config in readable(workload):
        if not config.reader:
            continue
        unfilled = [path for path in _autos(config.data, "") if not config.fills(path) and _matters(config, path)]
        by_section: dict[str, list[str]] = {}
        for path in unfilled:
            section, _, name = path.rpartition(".")
            by_section.setdefault(section, []).append(name)
        for section, names in by_section.items():
            first = f"{section}.{names[0]}" if section else names[0]
            among = f" in {section}" if section else ""
            yield Problem(
                f'{", ".join(names)}{among} {"is" if len(names) == 1 else "are"} "auto", which'
                f" {NAMES[config.reader]} does not fill in",
                config.at(first),
                related=(
                    *(config.at(f"{section}.{name}" if section else name) for name in names[1:]),
                    *((config.named.spot.saying("read here"),) if config.named is not None else ()),
                ),
                help="write the value",
            )


def _matters(config: Config, path: str) -> bool:
    """Whether an "auto" that stays is more than a default: in a checked section DeepSpeed drops it."""
    return config.reader == ACCELERATE or not config.drops_auto(path)


_HARMLESS = frozenset({"pipeline.stages", "autotuning", "data_types.keep_in_fp32_modules"})
"""Where DeepSpeed itself knows the word."""


def _autos(tree: Any, above: str) -> Iterator[str]:
    """Dotted keys with the value "auto"."""
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{above}.{name}" if above else str(name)
        if path in _HARMLESS:
            continue
        if value == "auto":
            yield path
        else:
            yield from _autos(value, path)
