"""Jobs whose number of nodes may change while they run."""

from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.rules.batch.ranks import given, number, per_pod
from trainyard.rules.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Setting, Workload

_PER_GPU = (
    "batch_size_per_gpu", "per_gpu_batch_size", "per_device_train_batch_size", "per_gpu_train_batch_size",
    "per_device_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu", "local_batch_size",
)  # fmt: skip
_GLOBAL = ("global_batch_size", "train_batch_size", "total_batch_size", "effective_batch_size")


@rule("BAT004", "elastic-batch-changes", Severity.WARNING, needs=Workload)
@once
def elastic_batch_changes(workload: Workload) -> Iterator[Problem]:
    """The number of nodes may change, and the global batch changes with it or does not divide.

    With a batch per GPU and nodes from 2 to 8 the global batch grows fourfold while the learning rate stays. Where the
    program keeps a global batch, every size that the job may take must divide it.

    Bad:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: bert, namespace: research}
        spec:
          elasticPolicy: {minReplicas: 2, maxReplicas: 8, rdzvBackend: c10d}
          pytorchReplicaSpecs:
            Worker:
              replicas: 4
              template:
                spec:
                  containers:
                  - name: pytorch
                    image: registry.example.com/train:1
                    command: [torchrun, --nproc_per_node=8, train.py, --batch-size-per-gpu=32]
                    resources: {limits: {nvidia.com/gpu: 8}}
    Good:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: bert, namespace: research}
        spec:
          elasticPolicy: {minReplicas: 4, maxReplicas: 4, rdzvBackend: c10d}
          pytorchReplicaSpecs:
            Worker:
              replicas: 4
              template:
                spec:
                  containers:
                  - name: pytorch
                    image: registry.example.com/train:1
                    command: [torchrun, --nproc_per_node=8, train.py, --batch-size-per-gpu=32]
                    resources: {limits: {nvidia.com/gpu: 8}}
    Near miss:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: bert, namespace: research}
        spec:
          elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: c10d}
          pytorchReplicaSpecs:
            Worker:
              replicas: 4
              template:
                spec:
                  containers:
                  - name: pytorch
                    image: registry.example.com/train:1
                    command: [torchrun, --nproc_per_node=8, train.py, --micro-batch-size=2, --global-batch-size=1536]
                    resources: {limits: {nvidia.com/gpu: 8}}

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for pod_set in workload.pod_sets:
        span = _span(pod_set)
        if span is None:
            continue
        (least, most), nodes = span
        whole, each = given(pod_set, *_GLOBAL), given(pod_set, *_PER_GPU)
        if whole is None and each is not None and number(each) is not None:
            yield Problem(
                f"{least} to {most} nodes take a batch of {each.value} a GPU, so the global batch may change"
                f" {most / least:g}-fold while the job runs",
                each.spot,
                related=(nodes.spot.saying("the nodes may change here"),),
                help="let the program keep a fixed global batch, or fix the number of nodes",
            )
        elif whole is not None:
            yield from _undivided(pod_set, whole, each, range(least, most + 1), nodes)


def _undivided(
    pod_set: PodSet, whole: Setting, each: Setting | None, sizes: range, nodes: Setting
) -> Iterator[Problem]:
    main, batch = pod_set.main(), number(whole)
    processes = per_pod(main) if main is not None else None
    micro = number(each) or 1
    if batch is None or not processes:
        return
    wrong = [size for size in sizes if batch % (size * processes * micro)]
    if wrong:
        ranks = wrong[0] * processes
        factors = f"({micro} x {ranks} ranks)" if micro > 1 else f"{ranks} ranks"
        yield Problem(
            f"a global batch of {batch} cannot be shared by {wrong[0]} nodes:"
            f" {batch} / {factors} = {batch / (ranks * micro):g}",
            whole.spot,
            related=(nodes.spot.saying("the nodes may change here"),),
            help="choose a global batch that every number of nodes divides, or fix the number of nodes",
        )


def _span(pod_set: PodSet) -> tuple[tuple[int, int], Setting] | None:
    """The least and the most nodes of an elastic job, or None for a fixed number."""
    main = pod_set.main()
    nodes = main.launch.option("nnodes") if main is not None and main.launch is not None else None
    if nodes is None or not isinstance(nodes.value, str):
        return None
    least, _, most = nodes.value.partition(":")
    if not (least.isdecimal() and most.isdecimal() and 0 < int(least) < int(most)):
        return None
    return (int(least), int(most)), nodes
