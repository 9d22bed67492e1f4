"""How many ranks a workload starts, and what its program is told about batches."""

from collections.abc import Sequence

from trainyard.workload.launch import argument
from trainyard.workload.model import Container, PodSet, Setting, Word, Workload

_PER_NODE = ("nproc_per_node", "num_gpus", "num_processes_per_node")


def ranks(workload: Workload) -> int | None:
    """Ranks of the whole job, or None where one factor is not known."""
    total = 0
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is None or not main.gpus:
            continue
        pods, processes = pod_set.count.value, per_pod(main)
        if pods is None or processes is None:
            return None
        total += pods * processes
    return total or None


def per_pod(container: Container) -> int | None:
    """Ranks that one pod starts: what its launcher says, else its GPUs; None for words of unknown content."""
    launch = container.launch
    for name in _PER_NODE:
        option = launch.option(name) if launch is not None else None
        if option is None:
            continue
        if str(option.value).isdecimal():
            return int(option.value)
        return container.gpus if option.value in ("auto", "gpu") else None
    return container.gpus


def given(pod_set: PodSet, *names: str) -> Setting | None:
    """An argument of the training program of these pods, by any of its names."""
    main = pod_set.main()
    return argument(_program(main), names) if main is not None else None


def number(setting: Setting | None) -> int | None:
    """The setting where it is a whole number above zero."""
    if setting is None or isinstance(setting.value, bool) or not str(setting.value).isdecimal():
        return None
    return int(setting.value) or None


def _program(main: Container) -> Sequence[Word]:
    return main.launch.program if main.launch is not None else main.words
