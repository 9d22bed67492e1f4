"""The configuration of `accelerate launch` itself, which may hold DeepSpeed's or name its file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.rules.deepspeed.files import file_of
from trainyard.workload.embedded import yaml_map
from trainyard.workload.model import Container, PodSet, Workload


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """What stands in the file that --config_file names, and the field that holds its text."""

    data: Mapping[Any, Any]
    spot: Spot


def launch_config(workload: Workload, pod_set: PodSet, container: Container) -> LaunchConfig | None:
    """The configuration of a container's `accelerate launch`; None where it has none, or its text is not known."""
    launch = container.launch
    option = launch.option("config_file") if launch is not None and launch.launcher == "accelerate" else None
    if option is None or not isinstance(option.value, str):
        return None
    file = file_of(workload, pod_set, container, option.value)
    data = {} if file is None else yaml_map(file.text)
    return LaunchConfig(data, file.spot) if file is not None and data else None
