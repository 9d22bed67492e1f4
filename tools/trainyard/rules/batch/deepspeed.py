"""DeepSpeed's configuration: its batch keys, and whether the program finds the file."""

import posixpath
from collections.abc import Iterator
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.counts import whole
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, as_number, programs
from trainyard.rules.common.world import ranks, split
from trainyard.rules.deepspeed.configs import DEEPSPEED, HUGGING_FACE, TRAINYARD, Config, named, readable
from trainyard.rules.deepspeed.elasticity import enabled
from trainyard.rules.deepspeed.files import file_of
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_WHOLE, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


@rule("BAT003", "deepspeed-batch-identity", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def deepspeed_batch_identity(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed's batch keys do not agree with one another and the number of ranks.

    DeepSpeed fills in the key that is missing by whole division and then asserts that train_batch_size =
    train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks. A file that was written for
    another number of GPUs stops every rank at the start. Ranks that share a copy of the model, by tensor, pipeline or
    sequence parallelism, count as one.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
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
            {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 128, "gradient_accumulation_steps": 4}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters
    """
    world = ranks(workload)
    for config in readable(workload) if world is not None else ():
        program = next((each for each in programs(workload) if each.container is config.container), None)
        if config.reader == TRAINYARD or enabled(config):
            continue
        if config.reader == DEEPSPEED and not config.given(_WHOLE) and not config.given(_MICRO):
            yield from _no_batch(config, program)
            continue
        data_parallel = _data_parallel(config, program, world or 0)
        if data_parallel is None:
            continue
        factors = {key: _factor(config, key, program) for key in (_WHOLE, _MICRO, _STEPS)}
        batch, micro, steps = (factors[key][0] for key in (_WHOLE, _MICRO, _STEPS))
        message = _disagreement(batch, micro, steps, *data_parallel)
        if message:
            others = (factors[key] for key in (_MICRO, _STEPS))
            yield Problem(
                message,
                config.at(_WHOLE),
                related=tuple(spot for value, spot in others if value is not None and spot is not None),
                help="make the keys agree, or let the trainer fill them in",
                fix=_product(config, micro, steps, data_parallel[0]),
            )


@rule("BAT006", "deepspeed-config-path", Severity.WARNING, needs=Workload)
@once
def deepspeed_config_path(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed's configuration is named by a relative path, and is mounted where the program may not look.

    A relative path counts from the working directory, which the image decides unless `workingDir` does. The file is
    then found or not by luck of the image.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=ds.json], volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data: {ds.json: '{"train_batch_size": 256}'}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, workingDir: /ds, args: [train.py, --deepspeed_config=ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            pointed = named(container)
            path = str(pointed[0].value) if pointed is not None else ""
            if pointed is None or not path.endswith(".json") or posixpath.isabs(path):
                continue
            if any(word.text == "cd" for word in container.words):
                continue
            file, directory = file_of(workload, pod_set, container, path), container.data.get("workingDir")
            found = posixpath.normpath(posixpath.join(directory, path)) if isinstance(directory, str) else ""
            if file is not None and posixpath.isabs(file.path) and file.path != found:
                counts = f"counts from workingDir {directory}" if found else "counts from a directory of the image"
                yield Problem(
                    f"{path} {counts}, but the file is mounted at {file.path}",
                    pointed[0].spot,
                    help=f"write {file.path}",
                )


def _product(config: Config, micro: int | None, steps: int | None, ranks: int) -> Remedy | None:
    """The batch that its parts come to."""
    whole = None if micro is None or steps is None else micro * steps * ranks
    return None if whole is None else put(config.at(_WHOLE), whole).saying(f"set {_WHOLE} to {whole}").unsafe()


def _no_batch(config: Config, program: Program | None) -> Iterator[Problem]:
    """A program that hands its arguments to DeepSpeed, as its flag --deepspeed tells, fills in nothing."""
    asked = program.given("deepspeed") if program is not None else None
    if asked is not None and asked.value is True:
        yield Problem(
            f"neither {_WHOLE} nor {_MICRO} is given, and DeepSpeed needs one",
            config.at(_STEPS) if config.given(_STEPS) else config.spot,
            help=f"add {_MICRO}",
        )


def _factor(config: Config, key: str, program: Program | None) -> tuple[int | None, Spot | None]:
    """A batch key, or the Hugging Face Trainer's argument where the key is absent or "auto"."""
    value = config.written(key)
    if (number := _count(value)) is not None:
        return number, config.at(key)
    if key == _WHOLE or config.reader not in (HUGGING_FACE, "") or program is None:
        return None, config.at(key)
    role = "micro" if key == _MICRO else "accumulation"
    setting = program.setting(role)
    if setting is not None:
        return whole(setting.value) or None, setting.spot
    sure = config.reader == HUGGING_FACE and program.known
    return (program.count(role), None) if sure else (None, config.at(key))


def _data_parallel(config: Config, program: Program | None, world: int) -> tuple[int, str] | None:
    """Data-parallel ranks and how they come about; None where too little is known."""
    divided = split(program, world) if program is not None else None
    if program is not None and (divided is None or divided.data_parallel is None):
        return None
    count, text = (world, f"ranks {world}") if divided is None else (divided.data_parallel or 0, divided.text)
    own = {
        "tensor": mapping(config.written("tensor_parallel")).get("autotp_size", 1),
        "sequence": config.written("sequence_parallel_size") or 1,
    }
    for name, size in own.items():
        if not isinstance(size, int) or size < 0 or (size > 1 and count % size):
            return None
        if size > 1:
            count //= size
            text = f"data-parallel ranks {count} ({world} / {name} {size})"
    stages = mapping(config.written("pipeline")).get("stages", "auto")
    return None if stages not in ("auto", 1) else (count, text)


def _count(value: Any) -> int | None:
    number = None if isinstance(value, bool | str) else as_number(value)
    return int(number) if number is not None and number == int(number) and number > 0 else None


def _disagreement(batch: int | None, micro: int | None, steps: int | None, world: int, ranks: str) -> str:
    """The arithmetic that does not come out, written out; empty where it does, or where too little is known."""
    if batch is None:
        return ""
    if micro and steps:
        product = micro * steps * world
        text = f"micro {micro} x accumulation {steps} x {ranks} = {product}, but {_WHOLE} is {batch}"
        return "" if product == batch else text
    known = f"micro {micro} x {ranks}" if micro else f"accumulation {steps} x {ranks}" if steps else ""
    divisor = (micro or steps or 1) * world
    if batch % divisor == 0 and batch >= divisor:
        return ""
    missing = "accumulation" if micro else "micro-batch"
    by = f"({known})" if known else ranks
    return f"{_WHOLE} {batch} / {by} = {batch / divisor:g}, but the {missing} must be a whole number of at least 1"
