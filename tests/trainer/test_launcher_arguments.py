"""The linter takes and refuses the same values of options as the real launchers' parsers."""

import contextlib
import importlib.util
import io
from collections.abc import Callable

import pytest

from trainyard.objects.objects import Object, Spot
from trainyard.rules.launchers.arguments import ambiguous, unreadable
from trainyard.workload.launch import launch
from trainyard.workload.launchers import TORCHRUN, canonical
from trainyard.workload.model import Launch, Word
from trainyard.workload.shell import Command

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
    "5",
    "3",
    ".5",
    "inf",
    "0:3,1:x",
    "0:3,1:1",
    "10:3",
    "timeout=10",
    "timeout=10,foo",
    "timeout=10,foo=",
    " timeout = 10 , foo=a=b",
    "timeout=10,",
    "=10",
    "0,1",
    "0,a",
    "spawn",
    "threads",
    "Spawn",
    "node",
    "core-complex",
    "foo",
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
        "rdzv_backend",
        "rdzv_id",
        "rdzv_conf",
        "monitor_interval",
        "start_method",
        "role",
        "redirects",
        "tee",
        "local_ranks_filter",
        "numa_binding",
        "shutdown_timeout",
        "duplicate_stdout_filters",
        "log_line_prefix_template",
    ),
    "deepspeed": ("num_nodes", "num_gpus", "master_port", "node_rank", "ssh_port", "hostfile", "master_addr"),
    "accelerate": ("num_processes", "num_machines", "machine_rank", "main_process_ip", "monitor_interval", "rdzv_conf"),
}


def torchrun(arguments: list[str]) -> None:
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.rendezvous import RendezvousHandlerRegistry, RendezvousParameters
    from torch.distributed.run import config_from_args, parse_args

    config = config_from_args(parse_args([*arguments, "train.py"]))[0]
    RendezvousParameters("c10d", "host:29400", "run", config.min_nodes, config.max_nodes)
    WorkerSpec("worker", config.nproc_per_node, RendezvousHandlerRegistry(), entrypoint="python")  # type: ignore[arg-type]


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


def launch_of(words: list[str]) -> Launch:
    spot = Spot(Object.of({}, 0), ("command",))
    found = launch([Command(tuple(Word(text, spot) for text in words), {})])
    assert found is not None
    return found


def torchruns_own() -> dict[str, int | None]:
    """Every option string of torchrun's parser, and how many values it takes; None for one."""
    from torch.distributed.run import get_args_parser

    return {name: each.nargs for each in get_args_parser()._actions for name in each.option_strings}  # type: ignore[misc]


def test_torchruns_options_are_those_of_its_parser() -> None:
    """Its abbreviations are only right where all its options are known."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    own = torchruns_own()

    assert {canonical(name) for name, number in own.items() if number is None and name.startswith("--")} == set(
        TORCHRUN.values
    )
    assert {canonical(name) for name, number in own.items() if number == 0 and name.startswith("--")} == set(
        TORCHRUN.flags
    ) - {"use_env"}  # of torch.distributed.launch


def test_torchruns_options_are_abbreviated_as_its_parser_reads_them() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    from torch.distributed.run import get_args_parser

    shorts = {
        name[:end]: None
        for name in torchruns_own()
        if name.startswith("--") and name[2:] not in ("help", "print-completion")
        for end in range(3, len(name) + 1)
    }
    real: dict[str, str] = {}
    ours: dict[str, str] = {}
    before = vars(get_args_parser().parse_args(["train.py"]))
    for short in shorts:
        for line in (f"{short} 2", f"{short}=2"):
            try:
                with contextlib.redirect_stderr(io.StringIO()) as errors:
                    after = vars(get_args_parser().parse_args([*line.split(), "train.py"]))
            except SystemExit:
                _, could, matches = errors.getvalue().partition(" could match ")
                # Two spellings of one option are ambiguous to older Pythons alone.
                if could and len(set(map(canonical, matches.strip().split(", ")))) > 1:
                    real[line] = "ambiguous"
                continue
            changed = [name for name in after if after[name] != before[name] and not name.startswith("training_")]
            program = "2 train.py" if after["training_script"] == "2" else "train.py"
            real[line] = f"{next(iter(changed))} before {program}"
    for line in real:
        found = launch_of(["torchrun", *line.split(), "train.py"])
        given = [name for name, each in found.options.items() if not each.implied]
        refused = any(ambiguous("torchrun", name) for name in given)
        program = " ".join(word.text for word in found.program if word.text != "--module")
        ours[line] = "ambiguous" if refused else f"{given[0]} before {program}"

    assert len(real) > 100
    assert ours == real
