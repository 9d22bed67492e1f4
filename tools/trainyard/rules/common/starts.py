"""Which pods of a job start ranks, and how many each launcher makes of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.rules.common.counts import whole
from trainyard.workload.model import Container, Launch, PodSet, Setting, Workload

_NODES = {
    "torchrun": "nnodes",
    "accelerate": "num_machines",
    "deepspeed": "num_nodes",
    "fabric": "num_nodes",
}
_MEETING = ("rdzv_endpoint", "master_addr", "main_process_ip", "main_address")
_LOCAL = ("localhost", "127.", "0.0.0.0", "::1", "[::1]")


@dataclass(frozen=True, slots=True)
class Start:
    """Pods that run one launch line."""

    pod_set: PodSet
    container: Container
    launch: Launch


def starts(workload: Workload) -> Iterator[Start]:
    """The launch lines of the job."""
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        if container is not None and container.launch is not None:
            yield Start(pod_set, container, container.launch)


def pods_that_start(workload: Workload, launcher: str) -> int | None:
    """How many pods run a launcher; None where a count is not known."""
    counts = [start.pod_set.count.value for start in starts(workload) if start.launch.launcher == launcher]
    return None if None in counts else sum(counts)


def nodes(launch: Launch) -> Setting | None:
    """The number of nodes that a launcher waits for, as the pair (minimum, maximum); None where it does not say."""
    name = _NODES.get(launch.launcher)
    setting = None if name is None else launch.option(name)
    if setting is None or not isinstance(setting.value, str):
        return None
    least, _, most = setting.value.partition(":")
    bounds = (whole(least), whole(most or least))
    return None if None in bounds else Setting(bounds, setting.spot, setting.implied)


def ranks_per_pod(launch: Launch) -> Setting | None:
    """How many ranks a launcher starts in each pod; None where that is not known or left to the launcher."""
    if launch.launcher == "accelerate":
        return _accelerate_ranks(launch)
    name = {"torchrun": "nproc_per_node", "deepspeed": "num_gpus"}.get(launch.launcher)
    setting = None if name is None else launch.option(name)
    count = None if setting is None else whole(setting.value)
    return None if setting is None or count is None else Setting(count, setting.spot, setting.implied)


def _accelerate_ranks(launch: Launch) -> Setting | None:
    """accelerate takes the processes of all machines together and divides them."""
    processes, machines = launch.option("num_processes"), launch.option("num_machines")
    total = None if processes is None else whole(processes.value)
    if processes is None or total is None or (machines is None and launch.option("config_file") is not None):
        return None
    by = 1 if machines is None else whole(machines.value)
    return Setting(total // by, processes.spot) if by else None


def names_a_meeting(start: Start) -> bool:
    """Whether a launch line names a place where its pods meet."""
    if start.launch.option("standalone") is not None:
        return False
    for name in _MEETING:
        setting = start.launch.option(name)
        if setting is not None and not setting.implied and not str(setting.value).startswith(_LOCAL):
            return True
    return start.pod_set.subdomain is not None and not start.pod_set.subdomain.implied


def meets_others(start: Start) -> bool:
    """Whether the ranks of a launch line are to form one world with those of other pods."""
    expected = nodes(start.launch)
    return names_a_meeting(start) or (expected is not None and expected.value[1] > 1)


def one_world(workload: Workload) -> bool:
    """Whether the job's pods, more than one, work together, as far as manifests tell."""
    several = workload.pods is None or workload.pods > 1
    plain = (workload.object.group, workload.object.kind) == ("batch", "Job")
    return several and (not plain or any(meets_others(start) for start in starts(workload)))
