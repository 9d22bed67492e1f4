"""Keys that do not go together: what schemas/deepspeed/constraints.yaml says of them."""

from collections.abc import Iterator

from trainyard.catalogues import deepspeed as facts
from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.conditions import holds
from trainyard.rules.deepspeed.configs import readable
from trainyard.rules.deepspeed.versions import parsed, release
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("DSP008", "deepspeed-keys-conflict", Severity.ERROR, needs=Workload)
@once
def deepspeed_keys_conflict(workload: Workload) -> Iterator[Problem]:
    """Keys of the DeepSpeed configuration contradict each other, or one lacks another that it needs.

    DeepSpeed checks some of this when it reads the file, and the rest when it wraps the model, after the weights are
    loaded: fp16 beside bf16, a device `nvme` without nvme_path, master weights without offload, gradients that are
    scaled before they are scattered.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}
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
            {"train_batch_size": 256, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "fp16": {"enabled": "auto"}, "bf16": {"enabled": true}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/
    """
    yield from _found(workload, "refused")


@rule("DSP009", "deepspeed-key-without-effect", Severity.WARNING, needs=Workload)
@once
def deepspeed_key_without_effect(workload: Workload) -> Iterator[Problem]:
    """A key of the DeepSpeed configuration does nothing beside the others.

    Parameters are offloaded at stage 3 alone, the optimizer from stage 1 on, and to nvme at stage 3. Elsewhere the run
    starts, and then lacks the memory that the key was to free.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
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
            {"train_batch_size": 256, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
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
            {"train_batch_size": 256, "zero_optimization": {"stage": 2, "offload_param": {"device": "none"}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#parameter-offloading
    """
    yield from _found(workload, "ignored")


@rule("DSP010", "deepspeed-advice", Severity.INFO, needs=Workload)
@once
def deepspeed_advice(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed does something here that the configuration does not say, or costs more than it must.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 256, "optimizer": {"type": "Adam", "params": {"lr": 1e-5, "weight_decay": 0.1}}}
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
            {"train_batch_size": 256, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "weight_decay": 0.1}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "optimizer": {"type": "Adam", "params": {"lr": 1e-5}}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#optimizer-parameters
    """
    yield from _found(workload, "advice")


def _found(workload: Workload, verdict: str) -> Iterator[Problem]:
    for config in readable(workload):
        known = release(workload, config.container, "deepspeed")
        for constraint in facts.constraints():
            if constraint.verdict != verdict or not holds(constraint, config):
                continue
            if constraint.since and (known is None or known < parsed(constraint.since)):
                continue
            given = constraint.other and config.given(constraint.other)
            yield Problem(
                constraint.says,
                config.at(constraint.at),
                related=(config.at(constraint.other),) if given else (),
                help=constraint.instead,
            )
