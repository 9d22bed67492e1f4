"""Whether a job fits into its GPUs, by the same arithmetic as tools/plan-job."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainyard.findings.finding import Severity
from trainyard.plan import memory
from trainyard.plan.compare import remedies
from trainyard.plan.job import Unplannable, environment_of, job_of, run_of
from trainyard.plan.memory import GIB
from trainyard.rules.common.recent import once_a_workload
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

if TYPE_CHECKING:
    from trainyard.plan.memory import Term
    from trainyard.plan.run import Run


@rule("MEM003", "gpu-memory-too-small", Severity.WARNING, needs=Workload)
def gpu_memory_too_small(workload: Workload) -> Iterator[Problem]:
    """The model, its gradients, optimizer states and activations need more memory than a GPU has.

    The run would end in its first step with CUDA out of memory. What is counted is the least that any program needs
    for these settings; the whole arithmetic is printed by tools/plan-job. Where the model, the GPU or the program is
    not one that the planner knows, nothing is said.

    Bad:

        kind: TrainingJob
        spec:
          model: llama-3.1-8b
          parallelism: fsdp
          precision: bf16
          sequenceLength: 8192
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB

    Good:

        kind: TrainingJob
        spec:
          model: llama-3.1-8b
          parallelism: fsdp
          precision: bf16
          sequenceLength: 2048
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB

    Near miss:

        kind: TrainingJob
        spec:
          model: llama-3.1-8b
          parallelism: fsdp
          precision: bf16
          sequenceLength: 8192
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB
        ---
        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_ACTIVATION_CHECKPOINTING: full

    Source: https://arxiv.org/abs/1910.02054
    """
    if (run := _run(workload)) is None:
        return

    has = run.gpu.most
    if _sum(memory.kept(run)) > has or _sum(terms := memory.least(run)) <= has:
        return
    message = (
        f"{run.shape.name} with micro {run.micro} x {run.sequence:,} tokens needs at least "
        f"{_sum(terms) / memory.GIB:.0f} GiB of a GPU, but {run.gpu.name} has {has / memory.GIB:.0f} GiB"
    )
    yield from _told(workload, run, message, terms, ("batch", "micro"))


@rule("MEM004", "model-states-too-large", Severity.ERROR, needs=Workload)
def model_states_too_large(workload: Workload) -> Iterator[Problem]:
    """Weights, gradients and optimizer states alone need more memory than a GPU has.

    No batch is small enough: the run ends with CUDA out of memory before its first step. Shard them over more ranks,
    or take a smaller model. Where the model, the GPU or the program is not one that the planner knows, nothing is
    said.

    Bad:

        kind: TrainingJob
        spec:
          model: llama-3.1-8b
          parallelism: ddp
          precision: bf16
          sequenceLength: 2048
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB

    Good:

        kind: TrainingJob
        spec:
          model: llama-3.1-8b
          parallelism: fsdp
          precision: bf16
          sequenceLength: 2048
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB

    Near miss:

        kind: TrainingJob
        spec:
          model: llama-1b
          parallelism: ddp
          precision: bf16
          sequenceLength: 2048
        ---
        kind: Cluster
        spec:
          node:
            gpu: H100-SXM-80GB

    Source: https://arxiv.org/abs/1910.02054
    """
    if (run := _run(workload)) is None:
        return

    terms, has = memory.kept(run), run.gpu.most
    if _sum(terms) <= has:
        return
    message = (
        f"{run.shape.name} keeps {_sum(terms) / memory.GIB:.0f} GiB of weights, gradients and optimizer states on a "
        f"GPU, but {run.gpu.name} has {has / memory.GIB:.0f} GiB"
    )
    yield from _told(workload, run, message, terms, ("parallelism",))


@once_a_workload
def _run(workload: Workload) -> "Run | None":
    """What the planner makes of a job; None where it does not know enough."""
    facts = (workload.training_job, workload.cluster, workload.fabric)
    if any(fact is None for fact in facts):
        return None

    training_job, cluster, fabric = (fact for fact in facts if fact is not None)
    environment = environment_of(workload.pod_sets)
    if not environment:
        return None
    try:
        return run_of(job_of(training_job.data, cluster.data, fabric.data, environment))
    except Unplannable:
        return None


def _sum(terms: "Sequence[Term]") -> float:
    return sum(term.bytes for term in terms)


def _told(
    workload: Workload, run: "Run", message: str, terms: "Sequence[Term]", field: tuple[str, ...]
) -> Iterator[Problem]:
    assert workload.training_job is not None
    assert workload.cluster is not None
    largest = max(terms, key=lambda term: term.bytes)
    label = f"{largest.name} take {largest.formula} = {largest.bytes / GIB:.0f} GiB of it"
    gpu = workload.cluster.at("spec", "node", "gpu", label=f"{run.gpu.most / GIB:.0f} GiB")
    fitting = remedies(run)
    remedy = f"{' or '.join(fitting[:2])} would fit" if fitting else "take a smaller model or more nodes"
    spot = workload.training_job.at("spec", *field, label=label)
    yield Problem(message, spot, (gpu,), f"{remedy}; tools/plan-job shows the arithmetic")
