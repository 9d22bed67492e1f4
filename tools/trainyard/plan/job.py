"""A job folder as a run to forecast: its TrainingJob, Cluster and Fabric, and the environment that its ranks get."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from trainyard.plan.hardware import gpus, read, usual_network
from trainyard.plan.run import RECOMPUTE, Run, Sharding
from trainyard.plan.shapes import shapes
from trainyard.plan.stacks import DDP, DEEPSPEED, FSDP

if TYPE_CHECKING:
    from trainyard.workload.model import PodSet

CHECKPOINTING = {"none": "none", "selective": "cheap", "full": "full"}
"""The trainer's activation_checkpointing as what is computed again: its `selective` keeps products and attention."""

TF32 = ("ampere", "ada", "hopper", "blackwell")
"""Generations of GPUs that multiply in TF32."""

PROGRAMS = ("trainer", "trainer.ray", "trainer.tensorflow")
"""Modules that train a preset."""
_QUOTED = 60
"""Characters of a command line that a message shows."""


@dataclass(slots=True)
class Unplannable(Exception):
    """There is no forecast for this job. `path` is the field of its TrainingJob or Cluster that says why."""

    reason: str
    kind: str = "TrainingJob"
    path: tuple[str, ...] = ("spec",)
    help: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """The facts of a job. Maps are as in the files; what they hold is checked when it is used."""

    name: str
    spec: Mapping[str, Any] = field(repr=False)
    cluster: str
    cluster_spec: Mapping[str, Any] = field(repr=False)
    fabric: str
    transport: str
    """rdma or sockets."""
    environment: Mapping[str, str] = field(repr=False)
    """What the container that trains has in its environment, as far as manifests tell."""


def job_of(
    training_job: Mapping[str, Any],
    cluster: Mapping[str, Any],
    fabric: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Job:
    """A job from its three facts, as plain data."""
    return Job(
        name=str(_map(training_job.get("metadata")).get("name", "")),
        spec=_map(training_job.get("spec")),
        cluster=str(_map(cluster.get("metadata")).get("name", "")),
        cluster_spec=_map(cluster.get("spec")),
        fabric=str(_map(fabric.get("metadata")).get("name", "")),
        transport=str(_map(fabric.get("spec")).get("transport", "rdma")),
        environment=environment,
    )


def environment_of(pod_sets: "Iterable[PodSet]") -> dict[str, str]:
    """What the containers that train find in their environment: those with settings of the trainer, most GPUs first.

    Empty where none has any, and so is not known to be the trainer.
    """
    containers = [container for pod_set in pod_sets for container in pod_set.containers]
    for container in sorted(containers, key=lambda container: -container.gpus):
        found = {name: variable.value for name, variable in container.env.items() if variable.value is not None}
        if any(name.startswith("TRAINER_") for name in found):
            return found
    return {}


def run_of(job: Job) -> Run:
    """The run. Unplannable where the job trains something that the planner does not know."""
    spec = job.spec
    command = spec.get("command", ["-m", "trainer"])
    program = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    module = program[program.index("-m") + 1 :][:1] if "-m" in program else program[-1:]
    if not module or module[0] not in PROGRAMS:
        said = shorten(" ".join(program), _QUOTED, placeholder=" ...")
        raise Unplannable(f"command {said} is not the trainer, so its model is not known", path=("spec", "command"))
    model = spec.get("model")
    if not isinstance(model, str) or model not in shapes():
        raise Unplannable(
            f"model {model} is not known", path=("spec", "model"), help=f"there are {', '.join(shapes())}"
        )
    node = _map(job.cluster_spec.get("node"))
    gpu = gpus().get(str(node.get("gpu")))
    if gpu is None:
        raise Unplannable(
            f"GPU {node.get('gpu')} is not in schemas/hardware/gpus.yaml", "Cluster", ("spec", "node", "gpu")
        )
    shape = shapes()[model]
    sequence = shape.patches or _count(spec, "sequenceLength")
    if 0 < shape.context < sequence:
        raise Unplannable(
            f"sequenceLength is {sequence}, but {model} takes samples of at most {shape.context} tokens",
            path=("spec", "sequenceLength"),
            help=f"set it to {shape.context} or less, or take a model with such a context",
        )
    nodes, per_node = _count(spec, "nodes"), _count(spec, "gpusPerNode")
    batch = _map(spec.get("batch"))
    sharding, stack, offload = _strategy(spec, job)
    if _flag(job, "TRAINER_COMPILE"):
        stack = replace(stack, fused=True)
    precision = spec.get("precision")
    if precision == "bf16" and not gpu.bf16:
        raise Unplannable(f"{gpu.name} has no bf16", path=("spec", "precision"), help="use fp16")
    tf32 = _flag(job, "TRAINER_TF32") and gpu.generation in TF32
    again = CHECKPOINTING.get(job.environment.get("TRAINER_ACTIVATION_CHECKPOINTING", "none"))
    if again is None:
        raise Unplannable("TRAINER_ACTIVATION_CHECKPOINTING must be none, selective or full", path=("spec", "env"))
    return Run(
        shape=shape,
        gpu=gpu,
        gpus=nodes * per_node,
        gpus_per_node=per_node,
        network=line_rate(job, gpu.name, per_node),
        transport="sockets" if job.transport == "sockets" else "rdma",
        stack=stack,
        sharding=sharding,
        sequence=sequence,
        micro=_count(batch, "micro", ("spec", "batch")),
        accumulation=_count(batch, "accumulation", ("spec", "batch")),
        reshard=not (sharding == "full" and _says(job, "TRAINER_FSDP_RESHARD_AFTER_FORWARD", "false")),
        precision=("tf32" if tf32 else "fp32") if precision == "fp32" else "16",
        recompute=RECOMPUTE[again],
        reduce_bytes=2 if stack.master else 4,
        offload=offload,
    )


def line_rate(job: Job, gpu: str, per_node: int) -> float:
    """Bytes/s out of a node, one direction: what the cluster says, else what such nodes usually have."""
    facts = _map(job.cluster_spec.get("forecast"))
    stated = facts.get("networkGbps")
    if isinstance(stated, int | float) and not isinstance(stated, bool) and stated > 0:
        return stated * 1e9 / 8
    if job.transport == "sockets":
        return float(read("nodes.yaml")["usual_sockets"]) * 1e9 / 8
    return usual_network()[gpu] * per_node


def _strategy(spec: Mapping[str, Any], job: Job) -> tuple[Sharding, Any, Any]:
    kind = spec.get("parallelism")
    if kind == "ddp":
        return "none", DDP, "none"
    if kind == "fsdp":
        return "full", FSDP, "all" if _flag(job, "TRAINER_FSDP_OFFLOAD") else "none"
    if kind != "deepspeed":
        raise Unplannable(f"parallelism {kind} is not known", path=("spec", "parallelism"))
    policies: dict[object, tuple[Sharding, Any]] = {
        "zero-1": ("optimizer", "none"),
        "zero-2": ("gradients", "none"),
        "zero-2-offload": ("gradients", "optimizer"),
        "zero-3": ("full", "none"),
        "zero-3-offload": ("full", "all"),
    }
    policy = spec.get("deepspeed")
    if not isinstance(policy, str) or policy not in policies:
        raise Unplannable(f"deepspeed {policy} is not known", path=("spec", "deepspeed"))
    sharding, offload = policies[policy]
    return sharding, DEEPSPEED, offload


def _flag(job: Job, name: str) -> bool:
    return _says(job, name, "true")


def _says(job: Job, name: str, value: str) -> bool:
    return job.environment.get(name, "").lower() in (value, {"true": "1", "false": "0"}[value])


def _count(facts: Mapping[str, Any], key: str, above: tuple[str, ...] = ("spec",)) -> int:
    value = facts.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**7:
        raise Unplannable(f"{key} is {value}, which is not a count", path=(*above, key))
    return value


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
