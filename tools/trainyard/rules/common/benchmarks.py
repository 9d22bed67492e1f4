"""Jobs that run nccl-tests or rccl-tests: they measure collectives, and train nothing."""

from trainyard.rules.common.recent import once_a_workload
from trainyard.workload.command import basename
from trainyard.workload.model import Workload

_COLLECTIVES = {
    "all_gather_perf": "allgather",
    "all_reduce_perf": "allreduce",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
    "reduce_scatter_perf": "reducescatter",
}
"""The collective that each program of the tests calls, as NCCL_ALGO names it."""
_POINT_TO_POINT = frozenset(
    f"{name}_perf" for name in ("alltoall", "alltoallv", "gather", "hypercube", "scatter", "sendrecv")
)
"""Programs that send and receive, for which NCCL has no algorithms to choose from."""


@once_a_workload
def measured(workload: Workload) -> frozenset[str] | None:
    """The collectives that a benchmark calls: allreduce, allgather ..., none for one that only sends and receives.

    None for a job that runs no program of the tests.
    """
    containers = (container for pod_set in workload.pod_sets for container in pod_set.containers)
    programs = {basename(word) for container in containers for word in container.words}
    if programs.isdisjoint(_COLLECTIVES.keys() | _POINT_TO_POINT):
        return None
    return frozenset(_COLLECTIVES[program] for program in programs if program in _COLLECTIVES)
