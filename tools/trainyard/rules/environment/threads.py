"""CPU threads of the ranks."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import environments
from trainyard.rules.common.starts import ranks_per_pod
from trainyard.rules.common.variable_remedies import assigned, unsafely
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("ENV031", "more-threads-than-cpus", Severity.INFO, needs=Workload, fix="unsafe")
@once
def more_threads_than_cpus(workload: Workload) -> Iterator[Problem]:
    """Ranks times OMP_NUM_THREADS are more than the container's CPUs.

    The threads take CPU time from each other, and the kernel throttles the container: data loading and launches
    stall.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMP_NUM_THREADS: "16"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMP_NUM_THREADS: "8"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMP_NUM_THREADS: "11"}

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for each in environments(workload):
        found, cpus = each.get("OMP_NUM_THREADS"), each.container.limits.get("cpu")
        ranks = None if each.container.launch is None else ranks_per_pod(each.container.launch)
        limit = None if cpus is None else quantity(cpus.value)
        if found is None or not found.integer or ranks is None or cpus is None or limit is None:
            continue
        if found.integer * ranks.value > limit:
            yield Problem(
                f"{ranks.value} ranks x OMP_NUM_THREADS {found.value} = {ranks.value * found.integer} threads,"
                f" but the container has {cpus.value} CPUs",
                found.spot,
                related=(cpus.spot,),
                help=f"set it to {max(int(limit) // max(ranks.value, 1), 1)} or less",
                fix=unsafely(assigned(found, str(max(int(limit) // max(ranks.value, 1), 1)))),
            )
