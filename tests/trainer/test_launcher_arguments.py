"""The linter takes and refuses the same values of options as the real launchers' parsers."""

import importlib.util
from collections.abc import Callable

import pytest

from trainyard.rules.launchers.arguments import unreadable

pytestmark = pytest.mark.torch

VALUES = (
    "4",
    "+4",
    " 4 ",
    "1_0",
    "0",
    "-3",
    "2:4",
    "4:2",
    "0:2",
    "2:x",
    "1:2:3",
    ":",
    "",
    "abc",
    "1e9",
    "4.0",
    "0x10",
    "4,",
)
OPTIONS = {
    "torchrun": (
        "nnodes",
        "nproc_per_node",
        "max_restarts",
        "node_rank",
        "master_port",
        "rdzv_endpoint",
        "master_addr",
    ),
    "deepspeed": ("num_nodes", "num_gpus", "master_port", "node_rank", "ssh_port", "hostfile", "master_addr"),
    "accelerate": ("num_processes", "num_machines", "machine_rank", "main_process_ip"),
}


def torchrun(arguments: list[str]) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.run import config_from_args, parse_args

    config = config_from_args(parse_args([*arguments, "train.py"]))[0]
    RendezvousParameters("c10d", "host:29400", "run", config.min_nodes, config.max_nodes)


def deepspeed(arguments: list[str]) -> None:
    from deepspeed.launcher.runner import parse_args

    parse_args([*arguments, "train.py"])


def accelerate(arguments: list[str]) -> None:
    from accelerate.commands.launch import launch_command_parser

    launch_command_parser().parse_args([*arguments, "train.py"])


PARSERS: dict[str, Callable[[list[str]], None]] = {
    "torchrun": torchrun,
    "deepspeed": deepspeed,
    "accelerate": accelerate,
}


def is_refused(launcher: str, option: str, value: str) -> bool:
    try:
        PARSERS[launcher]([f"--{option}={value}"])
    except (SystemExit, ValueError, RuntimeError, AssertionError):
        return True
    return False


@pytest.mark.parametrize(("launcher", "option"), [(name, each) for name in OPTIONS for each in OPTIONS[name]])
def test_values_are_refused_as_by_the_launcher(launcher: str, option: str) -> None:
    if importlib.util.find_spec("torch" if launcher == "torchrun" else launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    if (launcher, option) == ("torchrun", "nproc_per_node"):
        values: tuple[str, ...] = (*VALUES, "auto", "cpu")
    else:
        values = VALUES

    real = {value: is_refused(launcher, option, value) for value in values}

    assert {value: bool(unreadable(launcher, option, value)) for value in values} == real
