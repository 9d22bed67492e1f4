"""How many processes an MPIJob asks for, and how many its workers take."""

from trainyard.rules.common.counts import whole
from trainyard.workload import mpijob
from trainyard.workload.model import Setting, Workload


def slots_per_worker(workload: Workload) -> Setting | None:
    """An MPIJob's slots for each worker; None for other kinds, and where they are not a number."""
    slots = mpijob.slots(workload.object) if workload.object.kind == "MPIJob" else None
    return None if slots is None or slots.value is None else slots


def asked_processes(workload: Workload) -> Setting | None:
    """The processes that the launcher of an MPIJob asks for; None where it names no number."""
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        option = container.launch.option("np") if container is not None and container.launch is not None else None
        if option is not None and pod_set.role == "launcher" and (asked := whole(option.value)) is not None:
            return Setting(asked, option.spot)
    return None


def mpi_program(workload: Workload) -> str:
    """What the launcher of an MPIJob runs: mpirun where it is not known."""
    main = next((pod_set.main() for pod_set in workload.pod_sets if pod_set.role == "launcher"), None)
    return main.launch.launcher if main is not None and main.launch is not None else "mpirun"


def pods_of(workload: Workload, role: str) -> Setting | None:
    """How many pods a role has; None where that is not known."""
    return next((p.count for p in workload.pod_sets if p.role == role and p.count.value is not None), None)


def mpi_ranks_per_worker(workload: Workload) -> tuple[Setting, str] | None:
    """How many ranks an MPIJob starts in each worker, and the arithmetic; None where that is not known.

    That many are started only where the slots allow it, which MPI002 says.
    """
    slots, workers, asked = slots_per_worker(workload), pods_of(workload, "worker"), asked_processes(workload)
    if slots is None or workers is None or not workers.value:
        return None
    if asked is None:
        return slots, f"{slots.value} slots"
    if asked.value >= slots.value * workers.value:
        return None
    ranks = asked.value // workers.value
    return Setting(ranks, asked.spot), f"{asked.value} processes / {workers.value} workers = {ranks}"
