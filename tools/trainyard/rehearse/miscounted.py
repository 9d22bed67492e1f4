"""Numbers of nodes and ranks that a job is told, and that its pods do not come to."""

from trainyard.objects.objects import Spot
from trainyard.rules.common.counts import whole
from trainyard.rules.common.starts import nodes
from trainyard.workload.model import Launch, Setting, Workload


def miscounted(workload: Workload) -> tuple[str, Spot] | None:
    """What a launcher counts on and the job's pods are not, and where that is written; None where they agree."""
    mains = [(each, main) for each in workload.pod_sets if (main := each.main()) is not None]
    told = [(each, main.launch, max(1, main.gpus or 1)) for each, main in mains if main.launch is not None]
    waiting = sum(each.count.value or 0 for each, launch, _ in told if nodes(launch) is not None)
    ranks = sum((each.count.value or 0) * per_pod for each, launch, per_pod in told if _world(launch) is not None)
    for each, launch, _ in told:
        found = _of_nodes(each.count.value or 0, launch, waiting) or _of_world(each.count.value or 0, launch, ranks)
        if found is not None:
            return found
    return None


def _of_nodes(own: int, launch: Launch, pods: int) -> tuple[str, Spot] | None:
    if (wanted := nodes(launch)) is None:
        return None
    least, most = wanted.value
    if least > pods:
        return f"{launch.launcher} waits for nnodes {least}, but {_pods(pods)} it", wanted.spot
    if most < own:
        return f"{launch.launcher} takes nnodes {most}, but {_pods(own)} it, and the others are left over", wanted.spot
    return None


def _of_world(own: int, launch: Launch, ranks: int) -> tuple[str, Spot] | None:
    if (told := _world(launch)) is None:
        return None
    world = whole(told.value) or 0
    if world > ranks:
        return (
            f"WORLD_SIZE is {world}, but {_pods(own)} it, {ranks} {'rank' if ranks == 1 else 'ranks'} in all",
            told.spot,
        )
    if world < own:
        return f"WORLD_SIZE is {world}, but {_pods(own)} it, and the others are left over", told.spot
    return None


def _world(launch: Launch) -> Setting | None:
    """The world size of a script that is started without a launcher: a pod is a rank, or one for each of its GPUs."""
    told = launch.option("world_size") if launch.launcher == "python" else None
    return told if told is not None and whole(told.value) else None


def _pods(count: int) -> str:
    return "1 pod runs" if count == 1 else f"{count} pods run"
