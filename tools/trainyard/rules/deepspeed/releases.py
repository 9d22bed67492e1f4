"""What changed between releases of DeepSpeed, where the release is known."""

import json
from collections.abc import Iterator

from trainyard.catalogues import deepspeed as facts
from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import HUGGING_FACE, TRAINYARD, Config, readable
from trainyard.rules.deepspeed.versions import parsed, release, written
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("DSP018", "deepspeed-key-removed", Severity.ERROR, needs=Workload)
@once
def deepspeed_key_removed(workload: Workload) -> Iterator[Problem]:
    """The container's DeepSpeed refuses a key that older releases read.

    0.19.7 and 0.19.8 took out Apex amp, elasticity, sparse gradients, MiCS and more, and stop where a file still asks
    for them. The release is read where the container installs it, or from the tag of an image that is called deepspeed.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "sparse_gradients": true}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, image: "example.com/deepspeed:0.19.8", args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "steps_per_print": 100}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, image: "example.com/deepspeed:0.19.8", args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "sparse_gradients": true}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, image: "example.com/deepspeed:0.19.5", args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://github.com/deepspeedai/DeepSpeed/issues/8489
    """
    for config in readable(workload):
        has = release(workload, config.container, "deepspeed")
        for path, key in _given(config) if has is not None else ():
            if key.removed and has is not None and has >= parsed(key.removed):
                yield Problem(
                    f"DeepSpeed {written(has)} refuses {path}, which was removed in {key.removed}",
                    config.at(path),
                    help=f"use {key.instead}" if key.instead else "remove it",
                )


@rule("DSP019", "deepspeed-default-moved", Severity.INFO, needs=Workload)
@once
def deepspeed_default_moved(workload: Workload) -> Iterator[Problem]:
    """A key is left to its default, which another release of DeepSpeed sets otherwise.

    gradient_clipping is 1.0 since 0.19.3 and was off before: an image with another release trains otherwise, from the
    same file.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, image: "example.com/deepspeed:0.19.8", args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256, "gradient_clipping": 1.0}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, image: "example.com/deepspeed:0.19.8", args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://github.com/deepspeedai/DeepSpeed/releases
    """
    for config in readable(workload):
        has = release(workload, config.container, "deepspeed")
        if has is None or config.reader in (HUGGING_FACE, TRAINYARD):
            continue
        for section, known in facts.sections().items():
            for name, key in known.keys.items():
                path = f"{section}.{name}" if section else name
                moved = key.moved
                if moved is None or "before" not in moved or config.given(path) or not _matters(config, section):
                    continue
                now, other = (
                    (key.default, moved["before"])
                    if has >= parsed(moved["release"])
                    else (moved["before"], key.default)
                )
                yield Problem(
                    f"{path} is {_json(now)} in DeepSpeed {written(has)}, and {_json(other)}"
                    f" {'before' if now == key.default else 'from'} {moved['release']}",
                    config.at(path, label="not given"),
                    help=f"write {path} out",
                )


def _matters(config: Config, section: str) -> bool:
    """Whether the section of a key is in use."""
    if section == "bf16":
        return config.value("bf16.enabled") is True
    if "offload" in section:
        return config.value(f"{section}.device") in ("cpu", "nvme")
    return True


def _given(config: Config) -> Iterator[tuple[str, facts.Key]]:
    """The known keys that a configuration has, by their dotted path."""
    for section, known in facts.sections().items():
        for name, key in known.keys.items():
            path = f"{section}.{name}" if section else name
            if config.written(path) is not None:
                yield path, key


def _json(value: object) -> str:
    return json.dumps(value)
