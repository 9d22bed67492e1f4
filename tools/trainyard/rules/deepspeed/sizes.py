"""Elastic training of DeepSpeed's own: which numbers of GPUs it takes."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.world import ranks
from trainyard.rules.deepspeed.configs import Config, readable
from trainyard.rules.deepspeed.elasticity import batch_and_sizes, elastic, enabled
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_SHOWN = 12


@rule("DSP017", "deepspeed-elastic-size", Severity.ERROR, needs=Workload)
@once
def deepspeed_elastic_size(workload: Workload) -> Iterator[Problem]:
    """DeepSpeed's elasticity does not take this number of GPUs, or not these numbers.

    It chooses the global batch that most numbers of GPUs can share, from micro-batches times highly composite numbers,
    and refuses every other number: often 16, 32 and 64. Batch keys beside the section are refused too.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"elasticity": {"enabled": true, "max_train_batch_size": 1024, "micro_batch_sizes": [1, 2, 4, 8],
            "min_gpus": 8, "max_gpus": 256, "version": 0.1}}
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
            {"elasticity": {"enabled": true, "max_train_batch_size": 1024, "micro_batch_sizes": [1, 2, 4, 8],
            "num_gpus_per_node": 8}}
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
            {"train_batch_size": 256, "elasticity": {"enabled": false, "max_train_batch_size": 8,
            "micro_batch_sizes": [9]}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#elastic-training-config-v01-and-v02
    """
    for config in readable(workload):
        if enabled(config):
            yield from _shape(config)
            yield from _size(config, ranks(workload))


def _shape(config: Config) -> Iterator[Problem]:
    section = mapping(config.written("elasticity"))
    for needed in ("max_train_batch_size", "micro_batch_sizes"):
        if needed not in section:
            yield Problem(f"elasticity needs {needed}", config.at("elasticity"), help=f"add {needed}")
    beside = [key for key in _BATCH_KEYS if config.given(key)]
    if beside and section.get("ignore_non_elastic_batch_info") is not True:
        yield Problem(
            f"elasticity chooses the batch, and {', '.join(beside)} cannot be given with it",
            config.at(beside[0]),
            related=(config.at("elasticity"),),
            help="remove the batch keys, or set ignore_non_elastic_batch_info to true",
        )
    version = section.get("version", 0.2)
    model = section.get("model_parallel_size", 1)
    if version not in (0.1, 0.2):
        yield Problem(f"elasticity has no version {version}", config.at("elasticity.version"), help="write 0.1 or 0.2")
    elif isinstance(model, int) and model > 1 and version == 0.1:
        yield Problem(
            "elasticity 0.1 does not support model parallelism",
            config.at("elasticity.model_parallel_size"),
            related=(config.at("elasticity.version"),),
            help="write version 0.2",
        )


def _size(config: Config, world: int | None) -> Iterator[Problem]:
    numbers = elastic(config)
    if numbers is None or (numbers.version == 0.1 and numbers.model_parallel > 1):
        return
    spot = config.at("elasticity")
    if numbers.gpus_per_node % numbers.model_parallel:
        yield Problem(
            f"num_gpus_per_node {numbers.gpus_per_node} is not a multiple of"
            f" model_parallel_size {numbers.model_parallel}",
            spot.below("num_gpus_per_node"),
            help="choose sizes that divide",
        )
        return
    share = numbers.most if numbers.version == 0.1 else numbers.most * numbers.model_parallel // numbers.gpus_per_node
    too_large = [micro for micro in numbers.micros if micro > share]
    if too_large:
        of_node = "" if share == numbers.most else f" / num_gpus_per_node {numbers.gpus_per_node} = {share}"
        yield Problem(
            f"micro-batch {too_large[0]} is above max_train_batch_size {numbers.most}{of_node}",
            spot.below("micro_batch_sizes"),
            help="remove it, or raise the maximum",
        )
    elif numbers.most_gpus < numbers.least_gpus:
        yield Problem(
            f"max_gpus {numbers.most_gpus} is below min_gpus {numbers.least_gpus}",
            spot.below("max_gpus"),
            help="swap them",
        )
    elif world is not None:
        batch, sizes = batch_and_sizes(numbers, world)
        if world // numbers.model_parallel not in sizes:
            near = sorted(sizes, key=lambda size: abs(size - world))[:_SHOWN]
            yield Problem(
                f"{world} ranks cannot share the batch {batch} that elasticity chooses",
                spot.below("micro_batch_sizes"),
                help=f"take one of {', '.join(map(str, sorted(near)))} ranks, or other micro-batches"
                if near
                else "take other micro-batches",
            )
