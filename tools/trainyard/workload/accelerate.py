"""What `accelerate launch` takes from elsewhere than its command line: its file, and the variables of torchrun."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard.objects.objects import Object, Spot
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
_SPREADS = ("multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm")
"""Options by which accelerate hands over to torchrun, whatever the number of processes."""
_WIDEST = 64
"""Bits of a number that is read."""


def with_config(
    launch: Launch, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> Launch:
    """The launch with what stands in its file, where a ConfigMap that is mounted holds that."""
    named = launch.option("config_file") if launch.launcher == "accelerate" else None
    if named is None or not isinstance(named.value, str):
        return launch
    found = mounted_text(named.value, container, pod, sources)
    return launch if found is None else replace(launch, options={**dict(_options(*found)), **launch.options})


def spreads(launch: Launch, gpus: int) -> bool:
    """Whether accelerate hands over to torchrun in each pod. Otherwise it starts one process itself."""
    if any((option := launch.option(name)) is not None and option.value is True for name in _SPREADS):
        return True
    processes = launch.option("num_processes")
    return gpus > 1 and launch.option("cpu") is None and (processes is None or processes.value != "1")


def hands_to_deepspeed(launch: Launch) -> bool:
    """Whether several machines are left to deepspeed's own launcher, which takes them from a hostfile."""
    by = launch.option("deepspeed_multinode_launcher")
    return launch.option("use_deepspeed") is not None and (by is None or by.value not in ("standard", None))


def settled(launch: Launch, gpus: int) -> Launch:
    """The launch with what accelerate works out by itself, given the GPUs of its pod (accelerate 1.15).

    Without a number of processes it takes the GPUs of its pod, for all machines together. Where it knows of one machine
    alone it says how many processes that has, and leaves the machines to the variables of torchrun.
    """
    if launch.launcher != "accelerate":
        return launch
    own, file = launch.option("num_machines"), launch.option("config_file")
    options = dict(launch.options)
    if file is None and gpus and launch.complete and launch.option("cpu") is None:
        options.setdefault("num_processes", Setting(str(gpus), launch.spot, implied=True))
    wanted = launch.option("torchrun_nnodes")
    if wanted is not None and (own is None or own.value == "1") and spreads(launch, gpus):
        options |= dict(_of_torchrun(options, wanted, launch.spot))
    return replace(launch, options=options)


def _of_torchrun(options: Mapping[str, Setting], wanted: Setting, spot: Spot) -> Iterator[tuple[str, Setting]]:
    yield "num_machines", wanted
    yield "machine_rank", options.get("torchrun_node_rank") or Setting("0", spot, implied=True)
    address = options.get("torchrun_rdzv_endpoint") or options.get("torchrun_master_addr")
    if address is not None:
        host = address.value.partition(":")[0] if isinstance(address.value, str) else None
        yield "main_process_ip", Setting(host, address.spot)
    processes = options.get("num_processes")
    if processes is not None:
        product = _product(processes.value, wanted.value)
        yield "num_processes", Setting(product, processes.spot, processes.implied)


def _product(processes: Any, machines: Any) -> str | None:
    both = (processes, machines)
    if not all(isinstance(number, str) and number.isascii() and number.isdigit() for number in both):
        return None
    return str(int(processes) * int(machines))


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
