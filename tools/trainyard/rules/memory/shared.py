"""Shared memory: what ranks of one node exchange, and what it costs."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import put
from trainyard.rules.common.benchmarks import measured
from trainyard.rules.common.counts import number
from trainyard.rules.common.memory_volumes import memory_mounts, without_bound
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import Mount, Volume, mounts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Workload

_SHARED_MEMORY = PurePosixPath("/dev/shm")
_DEFAULT_SIZE = 64 * 2**20
_TRAINING_KINDS = ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "RayCluster", "RayJob", "TFJob", "TrainJob")


@rule("MEM001", "shared-memory-default", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def shared_memory_default(workload: Workload) -> Iterator[Problem]:
    """A container with several GPUs has no memory volume on /dev/shm.

    The ranks of one node exchange buffers through /dev/shm, and data loaders hand their batches over there. A container
    gets 64 MiB of it unless a volume is mounted, which NCCL and a few loader workers fill at once. Of nccl-tests, and
    of pods that nothing shows to train, it is information.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                volumeMounts:
                - name: shm
                  $patch: delete
    Bad:
        kind: Job
        spec: {template: {spec: {volumes: [{name: shm, emptyDir: {medium: null}}]}}}

    Good:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: shm
                emptyDir:
                  medium: Memory
                  sizeLimit: 64Gi

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              hostIPC: true
              containers:
              - name: trainer
                volumeMounts:
                - name: shm
                  $patch: delete

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory
    """
    for pod_set in workload.pod_sets:
        shared = {mount.container.name: mount for mount in mounts(pod_set) if mount.path == _SHARED_MEMORY}
        for container in pod_set.containers:
            if container.gpus < 2 or pod_set.spec.get("hostIPC") is True:
                continue
            mount = shared.get(container.name)
            if mount is None:
                gpus = number(container.gpus, "GPU")
                message = f"container {container.name} has {gpus} and 64 MiB of /dev/shm, the default"
                spot = container.spot.below("volumeMounts", label="nothing is mounted on /dev/shm")
            elif mount.volume.source == "emptyDir" and not mount.volume.in_memory:
                message = f"/dev/shm of container {container.name} is on the node's disk"
                spot = mount.volume.spot.below("emptyDir", label="medium is not Memory")
            elif mount.volume.in_memory and _is_as_small_as_the_default(mount.volume):
                message = (
                    f"/dev/shm of container {container.name} is {mount.volume.data['sizeLimit']}, the default or less"
                )
                spot = mount.volume.spot.below("emptyDir", "sizeLimit", label="NCCL and a few loader workers fill it")
            else:
                continue
            on_disk = mount is not None and not mount.volume.in_memory
            fix = put(spot.below("medium"), "Memory").unsafe() if on_disk else None
            softer = None if _starts_ranks(workload, container) else Severity.INFO
            help = "mount an emptyDir with medium Memory and a sizeLimit on /dev/shm"
            yield Problem(message, spot, (), help, fix, softer)


def _starts_ranks(workload: Workload, container: Container) -> bool:
    """Whether several ranks surely run in a container, and train: nccl-tests get by with the default, and so does what
    only looks after GPUs."""
    if measured(workload) is not None:
        return False
    return container.launch is not None or workload.object.kind in _TRAINING_KINDS or workload.in_job_folder


def _is_as_small_as_the_default(volume: Volume) -> bool:
    size = quantity(volume.data.get("sizeLimit"))
    return size is not None and size <= _DEFAULT_SIZE


@rule("MEM002", "shared-memory-over-limit", Severity.WARNING, needs=Workload)
@once
def shared_memory_over_limit(workload: Workload) -> Iterator[Problem]:
    """Memory volumes may grow to the memory limit of their container, or to that of the node.

    What is written to an emptyDir with medium Memory counts as memory of the container. A volume that may take the
    whole limit ends in an out-of-memory kill where a smaller one would end in a clear "no space left on device". With
    neither a sizeLimit nor a memory limit it can take the node. A /dev/shm that is bounded by the container's limit
    alone is the habit of most recipes, and information.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: shm
                emptyDir:
                  sizeLimit: 1Ti

    Good:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: shm
                emptyDir:
                  sizeLimit: 128Gi

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: shm
                emptyDir:
                  sizeLimit: 899Gi

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    for pod_set in workload.pod_sets:
        seen: set[str] = set()
        for mount in memory_mounts(pod_set):
            problem = _over_limit(mount) if mount.volume.name not in seen else None
            if problem is not None:
                seen.add(mount.volume.name)
                yield problem
        if not seen:
            yield from _together_over_limit(pod_set)


def _together_over_limit(pod_set: PodSet) -> Iterator[Problem]:
    """Several volumes of one container that fit alone, and not together."""
    by_container: dict[str, dict[str, Mount]] = {}
    for mount in memory_mounts(pod_set):
        by_container.setdefault(mount.container.name, {})[mount.volume.name] = mount
    for found in by_container.values():
        first, *others = found.values()
        limit = first.container.limits.get("memory")
        sizes = [quantity(mount.volume.data.get("sizeLimit")) for mount in found.values()]
        allowed = None if limit is None else quantity(limit.value)
        if not others or limit is None or allowed is None or None in sizes:
            continue
        if sum(size for size in sizes if size is not None) < allowed:
            continue
        written = " + ".join(str(mount.volume.data["sizeLimit"]) for mount in found.values())
        spots = tuple(mount.volume.spot.below("emptyDir", "sizeLimit") for mount in others)
        yield Problem(
            f"memory volumes {', '.join(found)} may grow to {written}, but container {first.container.name} has "
            f"{limit.value}",
            first.volume.spot.below("emptyDir", "sizeLimit", label="counts as memory of the container"),
            (*(spot.saying("so does this") for spot in spots), limit.spot.saying("the memory limit")),
            f"make them smaller, to leave room for the processes in the {limit.value}",
        )


def _over_limit(mount: Mount) -> Problem | None:
    volume, limit = mount.volume, mount.container.limits.get("memory")
    size, allowed = volume.data.get("sizeLimit"), None if limit is None else quantity(limit.value)
    spot = volume.spot.below("emptyDir")
    if limit is None and without_bound(mount):
        message = f"memory volume {volume.name} may grow to the memory of the node"
        resources = mount.container.spot.below("resources", "limits", label="no memory limit")
        return Problem(message, spot.saying("no sizeLimit"), (resources,), "set a sizeLimit and a memory limit")
    if limit is None or allowed is None:
        return None
    remedy = f"set a sizeLimit that leaves room for the processes in the {limit.value}"
    related = (limit.spot.saying(f"the memory limit of container {mount.container.name}"),)
    if size is None:
        message = f"memory volume {volume.name} may grow to {limit.value}, all the memory of its container"
        softer = Severity.INFO if mount.path == _SHARED_MEMORY else None
        return Problem(message, spot.saying("no sizeLimit"), related, remedy, severity=softer)
    bytes_ = quantity(size)
    if bytes_ is None or bytes_ < allowed:
        return None
    message = f"memory volume {volume.name} may grow to {size}, but container {mount.container.name} has {limit.value}"
    return Problem(message, spot.below("sizeLimit", label="counts as memory of the container"), related, remedy)
