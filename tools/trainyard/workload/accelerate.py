"""The file that `accelerate launch --config_file` reads, as options of the launch: the command line comes first."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from trainyard.objects import Object
from trainyard.workload.model import Launch, Setting
from trainyard.workload.plain import entries, mapping, text

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
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def with_config(
    launch: Launch | None, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> Launch | None:
    """The launch with what stands in its file, where a ConfigMap that is mounted holds that."""
    named = launch.option("config_file") if launch is not None and launch.launcher == "accelerate" else None
    if launch is None or named is None or not isinstance(named.value, str):
        return launch
    found = _config_map(named.value, container, pod, sources)
    return launch if found is None else replace(launch, options={**dict(_options(*found)), **launch.options})


def _options(found: Object, key: str) -> Iterator[tuple[str, Setting]]:
    try:
        data = mapping(yaml.load(mapping(found.data.get("data"))[key], _LOADER))
    except (yaml.YAMLError, RecursionError, ValueError):
        return
    spot = found.at("data", key)
    for name in _OPTIONS:
        if isinstance(data.get(name), str | int) and not isinstance(data[name], bool):
            yield name, Setting(str(data[name]), spot.below(name))
    deepspeed = mapping(data.get("deepspeed_config"))
    if data.get("distributed_type") == "DEEPSPEED":
        yield "use_deepspeed", Setting(True, spot.below("distributed_type"))
    for name in _OF_DEEPSPEED:
        if isinstance(deepspeed.get(name), str):
            yield name, Setting(deepspeed[name], spot.below("deepspeed_config", name))


def _config_map(
    path: str, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> tuple[Object, str] | None:
    """The ConfigMap that holds a file, and its key."""
    volumes = {text(volume.get("name")): mapping(volume.get("configMap")) for _, volume in entries(pod.get("volumes"))}
    for _, mount in entries(container.get("volumeMounts")):
        at, one = posixpath.normpath(text(mount.get("mountPath")) or "/"), text(mount.get("subPath"))
        source = volumes.get(text(mount.get("name")), {})
        inside = one if one and at == path else "" if one or not path.startswith(f"{at}/") else path[len(at) + 1 :]
        same = (item for item in sources if item.kind == "ConfigMap" and item.name == source.get("name"))
        found = next(same, None) if inside else None
        keys = {text(item.get("path")): text(item.get("key")) for _, item in entries(source.get("items"))}
        key = keys.get(inside, "") if keys else inside
        if found is not None and isinstance(mapping(found.data.get("data")).get(key), str):
            return found, key
    return None
