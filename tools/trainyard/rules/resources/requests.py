"""What CPU and memory a container with GPUs requests: RES001 and RES002."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import put
from trainyard.rules.common.counts import number
from trainyard.rules.common.memory_volumes import memory_mounts, without_bound
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Workload
from trainyard.workload.templates import SERVING


@rule("RES001", "resources-missing", Severity.INFO, needs=Workload)
@once
def resources_missing(workload: Workload) -> Iterator[Problem]:
    """A container with GPUs asks for no CPU or no memory.

    Without a request the scheduler counts nothing: data loaders share what other pods leave, and a node can be filled
    past its memory. Without a memory limit one leak takes the whole node down. Where one pod takes all GPUs of a node
    there is hardly anybody to share it with, so this is information. A CPU limit is a matter of taste and is not asked
    for. Where a memory volume without a size makes it worse, MEM002 tells of the missing limit.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    memory: null
                  limits:
                    memory: null

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    cpu: "88"
                    memory: 900Gi
                  limits:
                    memory: 900Gi

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    cpu: null
                    memory: null

    Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    """
    unbounded = {
        mount.container.spot
        for pod_set in workload.pod_sets
        for mount in memory_mounts(pod_set)
        if without_bound(mount)
    }
    for container in _gpu_containers(workload):
        told = container.spot in unbounded
        missing = [f"{name} request" for name in ("cpu", "memory") if name not in container.requests]
        if "memory" not in container.limits:
            missing.append("memory limit")
        missing = [each for each in missing if not (told and each.startswith("memory"))]
        if missing:
            gpus = number(container.gpus, "GPU")
            yield Problem(
                f"container {container.name} asks for {gpus} but has no {' and no '.join(missing)}",
                container.spot.below("resources", label=f"no {', no '.join(missing)}"),
                help="request the CPU and memory that the data loaders and the checkpoint need, and limit the memory",
            )


@rule("RES002", "not-guaranteed", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def not_guaranteed(workload: Workload) -> Iterator[Problem]:
    """A container with GPUs requests less memory than its limit.

    The node promises only the request. When it runs short it evicts or kills the pods that use more than they
    requested, and one lost pod stops every rank of the job.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    memory: 450Gi

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    memory: 900Gi

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    memory: 921600Mi

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    for container in _gpu_containers(workload):
        request, limit = container.requests.get("memory"), container.limits.get("memory")
        if request is None or limit is None:
            continue
        asked, allowed = quantity(request.value), quantity(limit.value)
        if asked is not None and allowed is not None and asked < allowed:
            yield Problem(
                f"container {container.name} requests memory {request.value}, but may use {limit.value}",
                request.spot.saying("what the node sets aside"),
                (limit.spot.saying("what the container may use"),),
                f"request {limit.value} too, so that a crowded node kills another pod first",
                put(request.spot, limit.value).unsafe(),
            )


def _gpu_containers(workload: Workload) -> Iterator[Container]:
    """Those of pods that train: what serves, or is tried by hand, may share its node with others."""
    for pod_set in workload.pod_sets if workload.object.kind not in (*SERVING, "Pod") else ():
        yield from (container for container in pod_set.containers if container.gpus)
