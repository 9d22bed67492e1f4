"""Whether a job fits into its GPUs, by the same arithmetic as tools/plan-job."""

from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


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
    facts = (workload.training_job, workload.cluster, workload.fabric)
    if any(fact is None for fact in facts):
        return
    from trainyard.plan import memory
    from trainyard.plan.compare import remedies
    from trainyard.plan.job import Unplannable, environment_of, job_of, run_of

    training_job, cluster, fabric = (fact for fact in facts if fact is not None)
    environment = environment_of(workload.pod_sets)
    if not environment:
        return
    try:
        run = run_of(job_of(training_job.data, cluster.data, fabric.data, environment))
    except Unplannable:
        return
    terms = memory.least(run)
    need, has = sum(term.bytes for term in terms) / memory.GIB, run.gpu.memory / memory.GIB
    if need <= has:
        return
    message = (
        f"{run.shape.name} with micro {run.micro} x {run.sequence:,} tokens needs at least {need:.0f} GiB of a GPU, "
        f"but {run.gpu.name} has {has:.0f} GiB"
    )
    largest = max(terms, key=lambda term: term.bytes)
    label = f"{largest.name} take {largest.formula} = {largest.bytes / memory.GIB:.0f} GiB of it"
    spot = training_job.at("spec", "batch", "micro", label=label)
    gpu = cluster.at("spec", "node", "gpu", label=f"{has:.0f} GiB")
    fitting = remedies(run)
    remedy = f"{' or '.join(fitting[:2])} would fit" if fitting else "take a smaller model or more nodes"
    yield Problem(message, spot, (gpu,), f"{remedy}; tools/plan-job shows the arithmetic")
