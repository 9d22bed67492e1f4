"""What a launcher's own parser takes as the value of an option."""

import re
from collections.abc import Callable, Mapping

from trainyard.schemas.filledin import is_filled_in
from trainyard.workload.launchers import TORCHRUN

_WHOLE = {
    "torchrun": "max_restarts node_rank master_port shutdown_timeout",
    "deepspeed": "num_nodes num_gpus master_port node_rank ssh_port min_elastic_nodes max_elastic_nodes",
    "accelerate": "num_processes num_machines machine_rank main_process_port num_cpu_threads_per_process",
    "mpirun": "np",
    "horovodrun": "np min_np max_np slots_per_host ssh_port reset_limit",
    "composer": "nproc world_size base_rank node_rank master_port",
    "fabric": "num_nodes node_rank main_port",
}
"""Options that a launcher reads as a whole number, and else ends: torch.distributed.run.get_args_parser,
deepspeed.launcher.runner.parse_args, accelerate.commands.launch, horovod.runner.launch, mpirun(1),
composer.cli.launcher, lightning.fabric.cli."""
_DEVICES = ("auto", "cpu", "gpu", "gcu", "hpu", "mlu", "mps", "musa", "npu", "privateuseone", "xpu")
"""Words that torchrun, or a build of it for another accelerator, takes in place of a number of ranks."""


def unreadable(launcher: str, option: str, value: object) -> str:
    """Why a launcher ends at a value of one of its options; empty where it reads it, the value is not known, or
    stands for one that is yet to be written."""
    if value is None or isinstance(value, bool):
        return ""
    text = str(value)
    if is_filled_in(text):
        return ""
    if launcher == "torchrun" and option == "nnodes":
        return _range(text)
    if launcher == "torchrun" and option == "nproc_per_node":
        return _ranks(text)
    if launcher == "torchrun" and option in _TORCHRUN:
        return _TORCHRUN[option](text)
    if launcher == "accelerate" and option == "monitor_interval":
        return _number(text)
    if option not in _WHOLE.get(launcher, "").split():
        return ""
    if not _is_whole(text):
        return "not a whole number"
    return "less than 0" if launcher == "torchrun" and option in _NOT_NEGATIVE and int(text) < 0 else ""


def ambiguous(launcher: str, option: str) -> tuple[str, ...]:
    """The options that a canonical name is short for, where that is more than one, so that the launcher ends."""
    meant = TORCHRUN.meant(f"--{option}") if launcher == "torchrun" else ()
    return meant if len(meant) > 1 else ()


def _ranks(text: str) -> str:
    if _is_whole(text):
        return "less than one rank" if int(text) < 1 else ""
    return "" if text in _DEVICES else f"not a whole number and none of {', '.join(_DEVICES[:3])}"


def _number(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return "not a number"
    return ""


def _one_of(*choices: str) -> Callable[[str], str]:
    return lambda text: "" if text in choices else f"none of {', '.join(choices)}"


def _streams(text: str) -> str:
    """Which streams of which ranks: torch.distributed.elastic.multiprocessing.api.Std."""
    return "" if re.match(r"[0-3]$|(\d:[0-3],)*\d:[0-3]$", text) else "not 0, 1, 2, 3 or RANK:0-3,..."


def _pairs(text: str) -> str:
    """torch.distributed.elastic.rendezvous.utils._parse_rendezvous_config."""
    pairs = [pair.partition("=") for pair in text.strip().split(",")] if text.strip() else []
    return "" if all(name.strip() and value.strip() for name, _, value in pairs) else "not KEY=VALUE,..."


def _numbers(text: str) -> str:
    return "" if not text or all(map(_is_whole, text.split(","))) else "not whole numbers with commas between them"


_NOT_NEGATIVE = ("max_restarts", "shutdown_timeout")
_TORCHRUN: Mapping[str, Callable[[str], str]] = {
    "local_ranks_filter": _numbers,
    "monitor_interval": _number,
    "numa_binding": _one_of("node", "socket", "exclusive", "core-complex"),
    "rdzv_conf": _pairs,
    "redirects": _streams,
    "start_method": _one_of("spawn", "fork", "forkserver"),
    "tee": _streams,
}
"""Further options of torchrun whose values its parser, or what it makes of them, refuses."""


def _range(text: str) -> str:
    parts = text.split(":")
    if len(parts) > 2 or not all(map(_is_whole, parts)):
        return "not a whole number or MIN:MAX"
    least, most = int(parts[0]), int(parts[-1])
    if least < 1:
        return "less than one node"
    return f"and {least} is more than {most}" if least > most else ""


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
