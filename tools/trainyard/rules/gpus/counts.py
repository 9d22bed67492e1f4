"""How many GPUs and other devices a pod requests: GPU001 and GPU002."""

from collections.abc import Iterator
from fractions import Fraction

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import put
from trainyard.rules.common.counts import at_once, gpu_limit, number
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Workload
from trainyard.yaml.fieldpath import lookup


@rule("GPU001", "gpu-request-differs", Severity.ERROR, needs=Workload, fix="safe")
@once
def gpu_request_differs(workload: Workload) -> Iterator[Problem]:
    """A GPU or another device is requested in another number than its limit, or not in a whole number.

    Kubernetes hands devices out whole and never twice. It refuses a pod whose request differs from its limit, that has
    a request and no limit, or that asks for a part of a device.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    nvidia.com/gpu: 6

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    nvidia.com/gpu: 8

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                resources:
                  requests:
                    nvidia.com/gpu: null

    Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
    """
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            yield from _device_counts(container)


def _device_counts(container: Container) -> Iterator[Problem]:
    remedy = "write the same whole number under requests and limits, or the limit alone"
    for name in sorted({*container.limits, *container.requests}):
        if "/" not in name or "kubernetes.io/" in name:
            continue
        limit, request = container.limits.get(name), container.requests.get(name)
        for setting in (limit, request):
            count = None if setting is None or setting.implied else quantity(setting.value)
            if setting is not None and count is not None and count != int(count):
                yield Problem(
                    f"{name} {setting.value} is not a whole number",
                    setting.spot.saying("devices are whole"),
                    help=remedy,
                )
                break
        else:
            if request is None or request.implied:
                continue
            if limit is None:
                message = f"container {container.name} requests {name} {request.value} but has no limit for it"
                same = put(container.spot.below("resources", "limits", name), request.value)
                yield Problem(message, request.spot.saying("a device needs a limit"), help=remedy, fix=same)
            elif quantity(request.value) != quantity(limit.value):
                message = f"container {container.name} requests {name} {request.value}, but its limit is {limit.value}"
                related = (limit.spot.saying("the limit"),)
                same = put(request.spot, limit.value)
                yield Problem(message, request.spot.saying("must equal the limit"), related, remedy, same)


@rule("GPU002", "node-has-fewer-gpus", Severity.ERROR, needs=Workload)
def node_has_fewer_gpus(workload: Workload) -> Iterator[Problem]:
    """A pod asks for more GPUs than a node of its cluster has.

    A pod runs on one node. No node can ever take this one, so it stays Pending, and the job with it. Init containers
    run before the others and count by themselves, except those that keep running: they hold their GPUs beside them.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NPROC_PER_NODE
                  value: "16"
                resources:
                  requests:
                    nvidia.com/gpu: 16
                  limits:
                    nvidia.com/gpu: 16

    Good:

        kind: Cluster
        spec:
          node:
            gpus: 8

    Near miss:

        kind: Cluster
        spec:
          node: null

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """
    if workload.cluster is None:
        return
    try:
        available = lookup(workload.cluster.data, ("spec", "node", "gpus"))
    except KeyError:
        return
    for pod_set in workload.pod_sets:
        asked = int(at_once(pod_set, lambda container: Fraction(container.gpus)))
        if not isinstance(available, int) or asked <= available:
            continue
        largest = max((*pod_set.containers, *pod_set.init_containers), key=lambda container: container.gpus)
        limit = gpu_limit(largest)
        yield Problem(
            f"each pod asks for {number(asked, 'GPU')}, but a node of cluster {workload.cluster.name} has {available}",
            (largest.spot if limit is None else limit.spot).saying("no node can take this pod"),
            (workload.cluster.at("spec", "node", "gpus", label="GPUs of one node"),),
            f"ask for at most {available} GPUs a pod and spread the ranks over more pods",
        )
