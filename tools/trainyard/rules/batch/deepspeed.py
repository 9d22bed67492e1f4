"""DeepSpeed's configuration: its batch keys, and whether the program finds the file."""

import json
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.finding import Severity
from trainyard.objects import Spot
from trainyard.rules.batch.ranks import given, number, ranks
from trainyard.rules.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping

_WHOLE, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_CONFIG_FLAGS = ("deepspeed_config", "deepspeed")
_MICRO_FLAGS = ("per_device_train_batch_size", "per_gpu_train_batch_size")
_SPLITS = (
    "tensor_model_parallel_size", "tensor_parallel_size", "pipeline_model_parallel_size", "pipeline_parallel_size",
    "pipe_parallel_size", "context_parallel_size", "sequence_parallel_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Config:
    """One DeepSpeed configuration, and the field that holds its text."""

    data: dict[str, Any]
    spot: Spot
    pod_set: PodSet

    def factor(self, key: str, *flags: str) -> tuple[int | None, Spot]:
        """A batch key, or the trainer's argument where the key is absent or "auto"."""
        value = self.data.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value, self.spot.below(key)
        argument = given(self.pod_set, *flags) if flags else None
        return (number(argument), argument.spot) if argument is not None else (None, self.spot.below(key))


@rule("BAT003", "deepspeed-batch-identity", Severity.ERROR, needs=Workload)
@once
def deepspeed_batch_identity(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed's batch keys do not agree with one another and the number of ranks.

    DeepSpeed fills in the key that is missing by whole division and then asserts that train_batch_size =
    train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks. A file that was written for
    another number of GPUs stops every rank at the start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: '{"train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}'
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: '{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}'
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data:
          ds.json: '{"train_batch_size": 128, "gradient_accumulation_steps": 4}'
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters
    """
    world = ranks(workload)
    if world is None:
        return
    for config in _configs(workload):
        if _is_split(config):
            continue
        whole, spot = config.factor(_WHOLE)
        micro, micro_spot = config.factor(_MICRO, *_MICRO_FLAGS)
        steps, steps_spot = config.factor(_STEPS, _STEPS)
        message = _disagreement(whole, micro, steps, world)
        if message:
            others = ((micro, micro_spot), (steps, steps_spot))
            yield Problem(
                message,
                spot,
                related=tuple(other for value, other in others if value is not None),
                help="make the keys agree, or let the trainer fill them in",
            )


@rule("BAT006", "deepspeed-config-path", Severity.WARNING, needs=Workload)
@once
def deepspeed_config_path(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed's configuration is named by a relative path, and is mounted where the program may not look.

    A relative path counts from the working directory, which the image decides unless `workingDir` does. The file is
    then found or not by luck of the image.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/etc/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-deepspeed, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: llama-sft-deepspeed}}], containers: [
          {name: trainer, workingDir: /etc/ds, args: [train.py, --deepspeed_config=ds.json],
          volumeMounts: [{name: ds, mountPath: /etc/ds}]}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath
    """
    for pod_set in workload.pod_sets:
        main, named = pod_set.main(), given(pod_set, *_CONFIG_FLAGS)
        if main is None or named is None or not isinstance(named.value, str) or not named.value.endswith(".json"):
            continue
        if posixpath.isabs(named.value) or any(word.text == "cd" for word in main.words):
            continue
        mounted = _mounted_files(workload, pod_set, main).get(posixpath.basename(named.value))
        directory = main.data.get("workingDir")
        found = posixpath.normpath(posixpath.join(directory, named.value)) if isinstance(directory, str) else ""
        if mounted and mounted != found:
            from_where = f"counts from workingDir {directory}" if found else "counts from a directory of the image"
            yield Problem(
                f"{named.value} {from_where}, but the file is mounted at {mounted}",
                named.spot,
                help=f"write {mounted}",
            )


def _configs(workload: Workload) -> Iterator[_Config]:
    """DeepSpeed's configurations: in ConfigMaps that the pods mount, and inline on the command line."""
    rendered = {obj.name: obj for obj in workload.of_kind("ConfigMap")}
    for pod_set in workload.pod_sets:
        for name in _config_map_volumes(pod_set).values():
            for key, text in mapping(rendered[name].data.get("data")).items() if name in rendered else ():
                if (config := _parsed(text)) is not None:
                    yield _Config(config, rendered[name].at("data", key), pod_set)
        inline = given(pod_set, *_CONFIG_FLAGS)
        if inline is not None and (config := _parsed(inline.value)) is not None:
            yield _Config(config, inline.spot, pod_set)


def _parsed(text: object) -> dict[str, Any] | None:
    if not isinstance(text, str) or "batch" not in text:
        return None
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) and any(key in data for key in (_WHOLE, _MICRO, _STEPS)) else None


def _is_split(config: _Config) -> bool:
    """True where tensor, pipeline or sequence parallelism may leave fewer data-parallel ranks than ranks."""
    sections = ("tensor_parallel", "pipeline", "sequence_parallel_size")
    if any(config.data.get(section) for section in sections):
        return True
    return any((argument := given(config.pod_set, flag)) is not None and str(argument.value) != "1" for flag in _SPLITS)


def _disagreement(whole: int | None, micro: int | None, steps: int | None, world: int) -> str:
    """The arithmetic that does not come out, written out; empty where it does, or where too little is known."""
    if whole is None:
        return ""
    if micro and steps:
        product = micro * steps * world
        text = f"micro {micro} x accumulation {steps} x ranks {world} = {product}, but {_WHOLE} is {whole}"
        return "" if product == whole else text
    known = f"micro {micro} x ranks {world}" if micro else f"accumulation {steps} x ranks {world}" if steps else ""
    divisor = (micro or steps or 1) * world
    if whole % divisor == 0 and whole >= divisor:
        return ""
    missing = "accumulation" if micro else "micro-batch"
    by = f"({known})" if known else f"ranks {world}"
    return f"{_WHOLE} {whole} / {by} = {whole / divisor:g}, but the {missing} must be a whole number of at least 1"


def _config_map_volumes(pod_set: PodSet) -> dict[str, str]:
    """Volume name to the name of its ConfigMap."""
    return {
        volume["name"]: mapping(volume.get("configMap")).get("name", "")
        for _, volume in entries(pod_set.spec.get("volumes"))
        if isinstance(volume.get("name"), str) and mapping(volume.get("configMap")).get("name")
    }


def _mounted_files(workload: Workload, pod_set: PodSet, container: Container) -> dict[str, str]:
    """File name to path, of what ConfigMaps put into the container."""
    rendered = {obj.name: obj for obj in workload.of_kind("ConfigMap")}
    volumes, files = _config_map_volumes(pod_set), {}
    for _, mount in entries(container.data.get("volumeMounts")):
        config, path = rendered.get(volumes.get(str(mount.get("name")), "")), str(mount.get("mountPath"))
        if mount.get("subPath"):
            files[posixpath.basename(path)] = path
        elif config is not None:
            files.update({key: posixpath.join(path, key) for key in mapping(config.data.get("data"))})
    return files
