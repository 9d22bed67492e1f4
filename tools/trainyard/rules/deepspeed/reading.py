"""A configuration that its reader cannot read, or cannot find."""

import posixpath
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import DEEPSPEED, NAMES, configs, named
from trainyard.rules.deepspeed.files import file_of, full_folders
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("DSP001", "deepspeed-config-unreadable", Severity.ERROR, needs=Workload)
@once
def deepspeed_config_unreadable(workload: Workload) -> Iterator[Problem]:
    """The DeepSpeed configuration is not in the language that its reader reads.

    DeepSpeed itself reads Hjson, where comments and trailing commas pass, and refuses a key that comes twice. The
    Hugging Face Trainer, Accelerate and our trainer read the file first, as plain JSON, and stop at a comment.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: |
            {
              "zero_optimization": {"stage": 2}, // gradients too
            }
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [run_clm.py, --output_dir=/checkpoints, --deepspeed=/etc/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: |
            {
              "zero_optimization": {"stage": 2}
            }
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [run_clm.py, --output_dir=/checkpoints, --deepspeed=/etc/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: |
            {
              "train_batch_size": 256, // DeepSpeed reads Hjson
            }
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/etc/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/
    """
    for config in configs(workload):
        if not config.fault:
            continue
        language = "Hjson" if config.reader in (DEEPSPEED, "") else "JSON"
        yield Problem(
            f"{NAMES.get(config.reader, 'DeepSpeed')} cannot read this as {language}: {config.fault}",
            config.spot,
            related=(config.named.spot.saying("read here"),) if config.named is not None else (),
            help="write plain JSON, each key once",
        )


@rule("DSP002", "deepspeed-config-missing", Severity.ERROR, needs=Workload)
@once
def deepspeed_config_missing(workload: Workload) -> Iterator[Problem]:
    """The program is given a DeepSpeed configuration that is not where the ConfigMap is mounted.

    A folder with a mounted ConfigMap holds the ConfigMap's keys and nothing else, so a file that is not a key
    of it does not exist there, whatever the image has at that place.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {zero3.json: '{"zero_optimization": {"stage": 3}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/etc/ds/ds_config.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {zero3.json: '{"zero_optimization": {"stage": 3}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/etc/ds/zero3.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {zero3.json: '{"zero_optimization": {"stage": 3}}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/workspace/ds_config.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#configmap
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            pointed = named(container)
            path = str(pointed[0].value) if pointed is not None else ""
            if pointed is None or not posixpath.isabs(path):
                continue
            folder = full_folders(workload, pod_set, container).get(posixpath.dirname(posixpath.normpath(path)))
            if folder is None or file_of(workload, pod_set, container, path) is not None:
                continue
            yield Problem(
                f"there is no {path}: the folder is a ConfigMap without that key",
                pointed[0].spot,
                related=(folder.saying("mounted here"),),
                help="name a key of the ConfigMap",
            )
