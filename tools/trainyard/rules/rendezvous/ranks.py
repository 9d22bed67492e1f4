"""How many ranks a launcher starts in each pod, and the variables that it gives them."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, all_of, remove
from trainyard.rules.common.counts import gpu_limit, number
from trainyard.rules.common.mpi_slots import mpi_ranks_per_worker
from trainyard.rules.common.once import once
from trainyard.rules.common.remedies import told
from trainyard.rules.common.starts import ranks_per_pod, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.made import written
from trainyard.workload.model import Container, Setting, Workload
from trainyard.workload.plain import entries, sequence, text

_SET_BY_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")

_DEVICES_OF_A_NODE = re.compile(
    r"(--?)?([\w.-]*[._-])?(n?gpus|ngpu|devices|strategy|multiprocessing[_-]distributed|local[_-]world[_-]size"
    r"|(gpus|devices|n?procs?|processes|ranks)[_-]per[_-]node)(=|\Z)"
)
"""Arguments by which programs that start the ranks of a node themselves are told of its devices."""


@rule("RDV002", "ranks-per-node-mismatch", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def ranks_per_node_mismatch(workload: Workload) -> Iterator[Problem]:
    """The launcher starts more ranks in a pod than the pod has GPUs.

    Each rank takes the GPU of its local rank. Ranks past the last GPU stop with "invalid device ordinal". Without a GPU
    `auto` starts one rank for each core of the node, even where the container may use few of them.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    nvidia.com/gpu: 4
                  limits:
                    nvidia.com/gpu: 4

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: "4"
                resources:
                  requests:
                    nvidia.com/gpu: 4
                  limits:
                    nvidia.com/gpu: 4

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: auto

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for start in starts(workload):
        container, ranks, limit = start.container, ranks_per_pod(start.launch), gpu_limit(start.container)
        if ranks is not None and limit is not None and ranks.value > container.gpus:
            has = number(container.gpus, "GPU")
            yield Problem(
                f"{start.launch.launcher} starts {number(ranks.value, 'rank')} in a pod, but the pod has {has}",
                ranks.spot.saying("ranks of one pod"),
                (limit.spot.saying("GPUs of one pod"),),
                f"start {number(container.gpus, 'rank')} in each pod, or ask for {number(ranks.value, 'GPU')}",
                _with_ranks(ranks, container),
            )
        auto, cpus = start.launch.option("nproc_per_node"), container.limits.get("cpu")
        if auto is not None and auto.value == "gpu" and cpus is not None and not _has_device(container):
            yield Problem(
                "nproc_per_node gpu stops torchrun where there is no GPU, and the container asks for none",
                auto.spot.saying("counts GPUs"),
                help="ask for GPUs, or write the number of ranks out",
            )
        if auto is None or auto.value not in ("auto", "cpu") or cpus is None:
            continue
        if auto.value == "auto" and _has_device(container):
            continue
        yield Problem(
            f"nproc_per_node {auto.value} starts a rank for each core of the node, but the container has {cpus.value}",
            auto.spot.saying("counts the node's cores, not the limit"),
            (cpus.spot.saying("CPUs of one pod"),),
            "write the number of ranks out",
        )


def _has_device(container: Container) -> bool:
    return any("/" in name for name in container.limits)


@rule("RDV012", "launcher-missing", Severity.ERROR, needs=Workload)
def launcher_missing(workload: Workload) -> Iterator[Problem]:
    """A job folder's command starts no launcher, though its pods are set up for torchrun.

    The base gives torchrun its settings as PET_ variables. A program that is started directly reads none of them: every
    pod trains alone, on one GPU, and they overwrite one another's checkpoints.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [python, -m, trainer]
                args: null
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [python, -m, torch.distributed.run, -m, trainer]
                args: null
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, exec torchrun -m trainer]
                args: null

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    if not workload.in_job_folder:
        return
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            launch, ranks = container.launch, container.env.get("PET_NPROC_PER_NODE")
            if launch is None or launch.launcher != "python" or ranks is None:
                continue
            also = container.env.get("PET_NNODES")
            yield Problem(
                "the command starts python itself, so nothing starts the other ranks",
                launch.spot.saying("expected torchrun"),
                tuple(variable.spot.saying("read by torchrun alone") for variable in (also, ranks) if variable),
                "start the program with torchrun, such as [torchrun, -m, trainer]",
            )


_IN_WORDS = {"command", "args"}


@rule("RDV009", "idle-gpus", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def idle_gpus(workload: Workload) -> Iterator[Problem]:
    """The launcher starts fewer ranks in a pod than the pod has GPUs.

    One rank drives one GPU. The others are taken from the cluster, paid for, and idle. In a job folder a pod takes all
    GPUs of its node; `gpusPerNode` is the number of its ranks, and asks for no GPUs. A program that is told of the
    devices of a node, such as Lightning's Trainer, starts its ranks itself.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: "4"

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: "8"

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: gpu

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for container, ranks, arithmetic in _ranks(workload):
        limit = gpu_limit(container)
        if limit is None or ranks.value >= container.gpus:
            continue
        idle = number(container.gpus - ranks.value, "GPU")
        mend = f"start {container.gpus} ranks in each pod"
        if not workload.in_job_folder:
            mend += f", or ask for {number(ranks.value, 'GPU')}"
        elif not _IN_WORDS & set(ranks.spot.path):  # else it is the command that says how many
            mend = (
                f"set gpusPerNode to {container.gpus}: a pod takes all GPUs of its node, whatever gpusPerNode says; "
                "a job that needs fewer GPUs asks for fewer nodes"
            )
        yield Problem(
            f"{arithmetic} in each pod, but a pod has {number(container.gpus, 'GPU')}: {idle} idle",
            ranks.spot.saying(number(ranks.value, "rank")),
            (limit.spot.saying("GPUs of one pod"),),
            mend,
            _with_ranks(ranks, container),
        )


def _ranks(workload: Workload) -> Iterator[tuple[Container, Setting, str]]:
    """The ranks of each pod, and how their number comes about."""
    for start in starts(workload):
        launch, ranks = start.launch, ranks_per_pod(start.launch)
        if launch.launcher == "python" and workload.object.kind == "PyTorchJob" and (workload.pods or 0) > 1:
            if any(_DEVICES_OF_A_NODE.match(word.text) for word in launch.program):
                continue
            yield start.container, Setting(1, launch.spot), "python alone starts 1 rank"
        elif ranks is not None and launch.launcher == "accelerate":
            total, machines = launch.option("num_processes"), launch.option("num_machines")
            by = "1" if machines is None else str(machines.value)
            shown = f"accelerate starts {total.value if total else ''} processes / {by} machines = {ranks.value}"
            yield start.container, ranks, shown
        elif ranks is not None and ranks.value > 0:  # or LCH004
            shown = f"{launch.launcher} starts {number(ranks.value, 'rank')}"
            yield start.container, ranks, shown
    for pod_set in workload.pod_sets:
        container, found = pod_set.main(), mpi_ranks_per_worker(workload)
        if container is not None and found is not None and pod_set.role == "worker":
            yield container, *found


@rule("RDV011", "reserved-env-set", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def reserved_env_set(workload: Workload) -> Iterator[Problem]:
    """A variable that the launcher or the job's controller sets is set by hand.

    torchrun gives MASTER_ADDR, RANK, WORLD_SIZE and their kin to each rank, and a PyTorchJob's controller to each pod.
    The value in the manifest never reaches the program, and misleads whoever reads it.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: WORLD_SIZE
                  value: "4"

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NNODES
                  value: "4"

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                args: [--rdzv-endpoint=$(MASTER_ADDR):29400, -m, trainer]
                env:
                - name: MASTER_ADDR
                  value: llama-sft-0.llama-sft

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for start in starts(workload):
        set_by = "torchrun" if start.launch.launcher == "torchrun" else ""
        found = []
        for name, spot in _own_variables(start.container):
            final = start.container.env.get(name)
            by_controller = final is not None and final.origin == "controller"
            if by_controller and written(spot).path[:3] == ("spec", "trainer", "env"):
                continue  # Trainer refuses these (ENV028)
            if by_controller or (set_by and name in _SET_BY_TORCHRUN and not _refers_to(start.container, name)):
                found.append((name, spot))
                set_by = set_by or f"the {workload.object.kind} controller"
        if found:
            names = " and ".join(name for name, _ in found)
            yield Problem(
                f"{names} set by hand, but {set_by} sets {'it' if len(found) == 1 else 'them'}",
                found[0][1].saying("never reaches the program"),
                tuple(spot.saying("nor does this") for _, spot in found[1:]),
                "take it out; the number of nodes, ranks and the endpoint belong to the launcher's own options",
                all_of(remove(_whole(spot)).unsafe() for _, spot in found),
            )


def _with_ranks(ranks: Setting, container: Container) -> Remedy | None:
    """A rank for each GPU."""
    remedy = told(ranks, container.gpus, "nproc_per_node", "nproc-per-node", "num_gpus")
    return None if remedy is None else remedy.unsafe()


def _whole(spot: Spot) -> Spot:
    """A variable with its name: the item of `env`, or the key of a ConfigMap."""
    return Spot(spot.object, spot.path[:-1]) if "env" in spot.path[-3:] else spot


def _own_variables(container: Container) -> Iterator[tuple[str, Spot]]:
    """Variables that the manifest gives by name, in `env` or in a ConfigMap."""
    for index, item in entries(container.data.get("env")):
        field = "valueFrom" if "valueFrom" in item else "value"
        yield text(item.get("name")), container.spot.below("env", index, field)
    for name, variable in container.env.items():
        if variable.origin == "configMap" and variable.spot.object.kind == "ConfigMap":
            yield name, variable.spot


def _refers_to(container: Container, name: str) -> bool:
    """Whether the command line or another variable is made from this one."""
    words = [str(item) for field in ("command", "args") for item in sequence(container.data.get(field))]
    values = [variable.raw or "" for variable in container.env.values()]
    reference = re.compile(rf"\$(\({name}\)|{name}\b|\{{{name}\b)")
    return any(reference.search(item) for item in words + values)
