"""Jobs whose number of nodes may change while they run."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, programs
from trainyard.rules.common.starts import nodes
from trainyard.rules.common.world import number, per_pod, split
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload


@rule("BAT004", "elastic-batch-changes", Severity.WARNING, needs=Workload)
@once
def elastic_batch_changes(workload: Workload) -> Iterator[Problem]:
    """The number of nodes may change, and the global batch changes with it or does not divide.

    With a batch per GPU and nodes from 2 to 8 the global batch grows fourfold while the learning rate stays. Where the
    program keeps a global batch, every size that the job may take must divide it: the micro-batches of our trainer may
    become smaller for that, those of other programs stay.

    Bad:
        # on: pytorchjob
        spec:
          elasticPolicy: {minReplicas: 2, maxReplicas: 8}
          pytorchReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - {name: pytorch, command: [torchrun, --nproc_per_node=8, train.py, --batch-size-per-gpu=32]}
    Good:
        # on: pytorchjob
        spec:
          elasticPolicy: {minReplicas: 4, maxReplicas: 4}
          pytorchReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - {name: pytorch, command: [torchrun, --nproc_per_node=8, train.py, --batch-size-per-gpu=32]}
    Near miss:
        # on: pytorchjob
        spec:
          elasticPolicy: {minReplicas: 1, maxReplicas: 4}
          pytorchReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - name: pytorch
                    command: [torchrun, --nproc_per_node=8, train.py, --micro-batch-size=2, --global-batch-size=1536]

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for program in programs(workload):
        span = _span(program)
        if span is None:
            continue
        (least, most), where = span
        batch, each = program.setting("global"), program.setting("micro")
        if number(batch) is not None:
            yield from _undivided(program, range(least, min(most, least + _MOST_SIZES) + 1), where)
        elif each is not None and number(each) is not None and not program.trainer.keeps_global:
            yield Problem(
                f"{least} to {most} nodes take a batch of {each.value} a GPU, so the global batch may change"
                f" {most / least:g}-fold while the job runs",
                each.spot,
                related=(where.spot.saying("the number of nodes may change here"),),
                help="let the program keep a fixed global batch, or fix the number of nodes",
            )


_MOST_SIZES = 10_000
"""Numbers of nodes that are tried: a batch that all of these share is one that every number does."""


def _undivided(program: Program, sizes: range, where: Setting) -> Iterator[Problem]:
    batch, setting, processes = program.count("global"), program.setting("global"), per_pod(program.container)
    micro = 1 if program.trainer.variables else program.count("micro") or 1
    if not batch or setting is None or not processes:
        return
    for size in sizes:
        divided = split(program, size * processes)
        copies = divided.data_parallel if divided is not None else None
        if divided is None or copies is None or batch % (copies * micro) == 0:
            continue
        factors = f"({micro} x {divided.text})" if micro > 1 else divided.text
        yield Problem(
            f"a global batch of {batch} cannot be shared by {size} nodes:"
            f" {batch} / {factors} = {batch / (copies * micro):g}",
            setting.spot,
            related=(where.spot.saying("the number of nodes may change here"),),
            help="choose a global batch that every number of nodes divides, or fix the number of nodes",
        )
        return


def _span(program: Program) -> tuple[tuple[int, int], Setting] | None:
    """The least and the most nodes of an elastic job, or None for a fixed number."""
    found = nodes(program.container.launch) if program.container.launch is not None else None
    if found is None or not 0 < found.value[0] < found.value[1]:
        return None
    return found.value, found
