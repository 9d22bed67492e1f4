"""How many ranks a workload starts, and how many of them hold different data."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.rules.common.counts import whole
from trainyard.rules.common.programs import Program
from trainyard.rules.common.starts import Start, nodes, starts
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.plain import digits

_PER_NODE = ("nproc_per_node", "num_gpus", "num_processes_per_node")
_MODEL_PARALLEL = ("tensor", "pipeline", "context")
_OF_ALL_HOSTS = ("mpirun", "horovodrun")


@dataclass(frozen=True, slots=True)
class Split:
    """How the ranks of a job are divided among model and data parallelism."""

    ranks: int
    parts: tuple[tuple[str, Setting], ...]
    """Kinds of model parallelism whose size is above one, and what gives each."""

    @property
    def size(self) -> int:
        """Ranks that hold one copy of the model together."""
        product = 1
        for _, setting in self.parts:
            product *= whole(setting.value) or 1
        return product

    @property
    def data_parallel(self) -> int | None:
        """Copies of the model, each of which takes samples of its own; None where the ranks do not divide."""
        return None if self.ranks % self.size else self.ranks // self.size

    @property
    def text(self) -> str:
        """`ranks 64`, or `data-parallel ranks 8 (64 / tensor 8)`."""
        if not self.parts:
            return f"ranks {self.ranks}"
        parts = " / ".join(f"{name} {setting.value}" for name, setting in self.parts)
        return f"data-parallel ranks {self.ranks // self.size} ({self.ranks} / {parts})"


def ranks(workload: Workload) -> int | None:
    """Ranks of the whole job, or None where one factor is not known."""
    launches = list(starts(workload))
    if any(start.launch.launcher in _OF_ALL_HOSTS for start in launches):
        return _asked_of_mpi(launches) or one_a_gpu(workload)
    accelerated = [start for start in launches if start.launch.launcher == "accelerate"]
    if accelerated:
        return _accelerated(accelerated, workload)
    total = 0
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        started = main is not None and main.launch is not None and main.launch.launcher == "torchrun"
        if main is None or not (main.gpus or started):
            continue
        pods, processes = _nodes(pod_set, main), per_pod(main)
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
        if (number := digits(str(option.value))) is not None:
            return number
        return container.gpus if option.value in ("auto", "gpu") else None
    if launch is not None and launch.launcher == "deepspeed":
        filtered = launch.option("include") is not None or launch.option("exclude") is not None
        return None if filtered else container.gpus
    if launch is not None and launch.launcher == "python" and launch.option("world_size") is not None:
        return 1 if container.gpus == 1 else None
    return container.gpus


def split(program: Program, ranks: int) -> Split | None:
    """The ranks of a program without those that share a copy of the model; None where a size is not known."""
    parts = []
    for name in _MODEL_PARALLEL:
        setting = program.setting(name)
        if setting is None:
            continue
        size = whole(setting.value)
        if not size:
            return None
        if size > 1:
            parts.append((name, setting))
    return Split(ranks, tuple(parts))


def number(setting: Setting | None) -> int | None:
    """The setting where it is a whole number above zero."""
    return None if setting is None else whole(setting.value) or None


def _nodes(pod_set: PodSet, main: Container) -> int | None:
    """Pods that form the world: those of the set, or those that torchrun waits for where it says so."""
    pods: int | None = pod_set.count.value
    if main.launch is None or main.launch.launcher != "torchrun":
        return pods
    if main.launch.option("standalone") is not None:
        return 1
    wanted = nodes(main.launch)
    if wanted is None or wanted.implied or wanted.value[0] != wanted.value[1] or pods is None:
        return pods
    return int(min(wanted.value[1], pods))


def _asked_of_mpi(launches: list[Start]) -> int | None:
    for start in launches:
        asked = start.launch.option("np")
        if start.launch.launcher in _OF_ALL_HOSTS and asked is not None:
            return whole(asked.value) or None
    return None


def _accelerated(launches: list[Start], workload: Workload) -> int | None:
    """accelerate takes the processes of all machines together; without a number it takes the GPUs of one."""
    asked = launches[0].launch.option("num_processes")
    if asked is not None:
        return whole(asked.value) or None
    if launches[0].launch.option("config_file") is not None:
        return None
    return one_a_gpu(workload)


def one_a_gpu(workload: Workload) -> int | None:
    """Ranks of the whole job where each GPU has one; None where they are not known, or there are none."""
    counts = list(_gpus(workload))
    return None if None in counts else sum(count or 0 for count in counts) or None


def _gpus(workload: Workload) -> Iterator[int | None]:
    for pod_set in workload.pod_sets:
        main = max(pod_set.containers, key=lambda container: container.gpus, default=None)
        if main is not None and main.gpus:
            pods = pod_set.count.value
            yield None if pods is None else pods * main.gpus
