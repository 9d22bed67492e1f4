"""Keys that DeepSpeed does not know, and values that it does not take."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from trainyard.catalogues import deepspeed as facts
from trainyard.catalogues.deepspeed import Key
from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy, rename
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import Config, readable
from trainyard.rules.deepspeed.values import refusal, taken
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_LIKE = 0.85


@rule("DSP003", "deepspeed-key-refused", Severity.ERROR, needs=Workload, fix="safe")
@once
def deepspeed_key_refused(workload: Workload) -> Iterator[Problem]:
    """A section of the DeepSpeed configuration holds a key that it forbids.

    zero_optimization, fp16, bf16, the offload sections and the monitors are checked models: DeepSpeed stops at the
    first key that they do not have. A key that belongs one level up or down is the usual cause.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 2, "pin_memory": true}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: |
            {
              "train_batch_size": 256,
              "zero_optimization": {"stage": 2, "overlap_com": true}
            }
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 2, "overlap_comm": true}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 3, "prefetch_bucket_size": 5e7}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#zero-optimizations-for-fp16-training
    """
    for config, section, name in _unknown(workload, "refused"):
        yield Problem(
            f"{section} has no key {name}, and DeepSpeed refuses it there",
            config.at(f"{section}.{name}"),
            help=_remedy(config, section, name) or "remove it",
            fix=_renamed(config, section, name),
        )


@rule("DSP004", "deepspeed-key-misplaced", Severity.WARNING, needs=Workload, fix="safe")
@once
def deepspeed_key_misplaced(workload: Workload) -> Iterator[Problem]:
    """A key of the DeepSpeed configuration is misspelt, or stands in the wrong place, and is ignored there.

    At the top and in several sections DeepSpeed passes over what it does not know, without a word.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "gradient_acumulation_steps": 2}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "gradient_accumulation_steps": 2}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "our_experiment": "a note that only our program reads"}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/
    """
    for config, section, name in _unknown(workload, "ignored"):
        remedy = _remedy(config, section, name)
        if remedy:
            where = section or "the top of the configuration"
            yield Problem(
                f"{where} has no key {name}: DeepSpeed ignores it",
                config.at(f"{section}.{name}" if section else name, label="has no effect"),
                help=remedy,
                fix=_renamed(config, section, name),
            )


@rule("DSP005", "deepspeed-key-unknown", Severity.INFO, needs=Workload)
@once
def deepspeed_key_unknown(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed reads no such key, though the program may.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "warm_start": true}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "steps_per_print": 100}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "pipeline": {"our_split": 4}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/
    """
    for config, section, name in _unknown(workload, "ignored"):
        if not _remedy(config, section, name) and not name.startswith(("_", "comment")):
            yield Problem(
                f"DeepSpeed reads no key {name} here",
                config.at(f"{section}.{name}" if section else name),
                help="remove it, unless the program itself reads it",
            )


@rule("DSP006", "deepspeed-value-refused", Severity.ERROR, needs=Workload)
@once
def deepspeed_value_refused(workload: Workload) -> Iterator[Problem]:
    """A key of the DeepSpeed configuration has a value that it cannot have.

    DeepSpeed checks types and bounds when it reads the configuration, on every rank, and stops.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 4}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 3}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/
    """
    for config in readable(workload):
        for section, known in facts.sections().items():
            tree = config.written(section) if section else config.data
            for name, value in tree.items() if isinstance(tree, dict) else ():
                key = known.key(name)
                reason = _refusal(key, value, checked=known.unknown == "refused") if key is not None else ""
                if key is not None and reason:
                    path = f"{section}.{name}" if section else name
                    yield Problem(f"{path} {reason}", config.at(path), help=f"write {taken(key)}")


def _refusal(key: Key, value: Any, *, checked: bool) -> str:
    if value == "auto" or value is None or not (checked or key.checked):
        return ""
    return refusal(key, value)


def _unknown(workload: Workload, verdict: str) -> Iterator[tuple[Config, str, str]]:
    """(configuration, section, key) of keys that a section does not know, by what DeepSpeed does with them."""
    for config in readable(workload):
        for section, known in facts.sections().items():
            tree = config.written(section) if section else config.data
            if known.unknown != verdict or not isinstance(tree, dict):
                continue
            for name in tree:
                if known.key(name) is None and not _told_elsewhere(section, name):
                    yield config, section, name


def _told_elsewhere(section: str, name: str) -> bool:
    """Whether a constraint is about this very key."""
    path = f"{section}.{name}" if section else name
    return any(constraint.at == path for constraint in facts.constraints())


def _renamed(config: Config, section: str, name: str) -> Remedy | None:
    words = _remedy(config, section, name)
    spot = config.at(f"{section}.{name}" if section else name)
    return rename(spot, words.removeprefix("rename it to ")) if words.startswith("rename it to ") else None


def _remedy(config: Config, section: str, name: str) -> str:
    """Where the key belongs, or what it should be called; empty where nothing is like it."""
    homes = [path for path, known in facts.sections().items() if known.key(name) is not None and path != section]
    if homes and name not in ("enabled", "type", "params", "device", "dtype", "version", "debug", "verbose", "project"):
        return f"move it into {homes[0]}" if homes[0] else "move it to the top"
    near = get_close_matches(name, facts.sections()[section].keys, 1, _LIKE)
    return f"rename it to {near[0]}" if near and near[0] not in (config.written(section) or config.data) else ""
