"""What a launcher's own parser takes as the value of an option."""

from trainyard.schemas.filledin import is_filled_in

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
        return (
            "" if _is_whole(text) or text in _DEVICES else f"not a whole number and none of {', '.join(_DEVICES[:3])}"
        )
    if option not in _WHOLE.get(launcher, "").split():
        return ""
    if not _is_whole(text):
        return "not a whole number"
    return "less than 0" if (launcher, option) == ("torchrun", "max_restarts") and int(text) < 0 else ""


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
