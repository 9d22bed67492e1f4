"""The file that `accelerate launch --config_file` reads, as options of the launch: the command line comes first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard.objects import Object, Spot
from trainyard.workload.embedded import yaml_map
from trainyard.workload.model import Launch, Setting
from trainyard.workload.mounted import mounted_text
from trainyard.workload.plain import mapping

_OPTIONS = (
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "mixed_precision",
    "num_machines",
    "num_processes",
    "rdzv_backend",
)
_OF_DEEPSPEED = ("deepspeed_config_file", "deepspeed_hostfile", "deepspeed_multinode_launcher")
_WIDEST = 64
"""Bits of a number that is read."""


def with_config(
    launch: Launch | None, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> Launch | None:
    """The launch with what stands in its file, where a ConfigMap that is mounted holds that."""
    named = launch.option("config_file") if launch is not None and launch.launcher == "accelerate" else None
    if launch is None or named is None or not isinstance(named.value, str):
        return launch
    found = mounted_text(named.value, container, pod, sources)
    return launch if found is None else replace(launch, options={**dict(_options(*found)), **launch.options})


def _options(content: str, spot: Spot) -> Iterator[tuple[str, Setting]]:
    data = yaml_map(content)
    for name in _OPTIONS:
        value = data.get(name)
        if isinstance(value, str) or (type(value) is int and value.bit_length() <= _WIDEST):
            yield name, Setting(str(value), spot.below(name))
    deepspeed = mapping(data.get("deepspeed_config"))
    if data.get("distributed_type") == "DEEPSPEED":
        yield "use_deepspeed", Setting(True, spot.below("distributed_type"))
    for name in _OF_DEEPSPEED:
        if isinstance(deepspeed.get(name), str):
            yield name, Setting(deepspeed[name], spot.below("deepspeed_config", name))
