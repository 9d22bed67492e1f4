"""Every key of the trainer: its type, unit, default, bounds, and where job.yaml sets it.

--help and the JSON Schema are made of these; tools/update-docs makes of `job` all that sets it from job.yaml.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Precision = Literal["bf16", "fp16", "fp32"]
Parallelism = Literal["ddp", "fsdp", "deepspeed"]


def key(
    default: Any,
    text: str,
    unit: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    above: bool = False,
    job: str = "",
    there: Mapping[str, Any] | None = None,
) -> Any:
    """A field with its documentation. `low` and `high` bound a number; `above` excludes `low` itself.

    `job` is where job.yaml sets it, below spec; empty: nowhere. `there` holds the keywords of its JSON Schema that
    differ in job.yaml; one that is None is left out.
    """
    metadata = {"text": text, "unit": unit, "low": low, "high": high, "above": above, "job": job, "there": there or {}}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The known-good setting that learning_rate was scaled from."""

    rule: Literal["none", "linear", "sqrt"] = key("none", "how learning_rate follows from base_learning_rate; checked")
    base_learning_rate: float = key(0.0, "learning rate that is known to work at base_batch", low=0, high=10)
    base_batch: int = key(0, "global batch of base_learning_rate", "samples", low=0)


@dataclass(frozen=True, slots=True)
class Data:
    """Reading samples."""

    cache: str = key("", "folder on the node's own disk into which the dataset is copied once; empty: read in place")
    workers: int = key(2, "threads per rank that prepare samples ahead", "threads", low=0, high=64)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Saving and resuming."""

    dir: str = key("checkpoints", "folder of the checkpoints; the run's own lie in the folder of its name")
    every_steps: int = key(
        0,
        "steps between two checkpoints; 0: from mtbf_hours and the measured time of a save (Daly)",
        "steps",
        low=0,
        job="checkpoint.everySteps",
        there={"default": 500, "minimum": 1, "description": "Optimizer steps between two checkpoints."},
    )
    mtbf_hours: float = key(24.0, "mean time between failures that stop this run", "hours", low=0, above=True)
    keep: int = key(3, "newest checkpoints that are kept", "checkpoints", low=1, job="checkpoint.keep")
    keep_every: int = key(0, "checkpoints at multiples of so many steps are kept forever; 0: none", "steps", low=0)
    background: bool = key(True, "write while training goes on; false: training waits")
    start_over: bool = key(False, "start at step 1 where the run has checkpoints and none of them is usable")
    failures: int = key(3, "failed saves in a row after which the run ends", "saves", low=1)
    timeout_seconds: float = key(1800.0, "longest time that a save may take", "seconds", low=0, above=True)


@dataclass(frozen=True, slots=True)
class Fsdp:
    """FSDP2, for parallelism=fsdp."""

    reshard_after_forward: bool = key(True, "free a layer's weights between forward and backward (ZeRO-3; else ZeRO-2)")
    offload: bool = key(False, "keep weights, gradients and optimizer state in host memory")


@dataclass(frozen=True, slots=True)
class DeepSpeed:
    """DeepSpeed ZeRO, for parallelism=deepspeed."""

    config: str = key("", "file with the ZeRO policy; batch, precision and clipping are filled in from these keys")
    stage: int = key(2, "ZeRO stage where no file is given", low=1, high=3)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What can be seen of a run."""

    port: int = key(
        0,
        "TCP port of the Prometheus endpoint, one server a node; 0: none",
        low=0,
        high=65535,
        job="metricsPort",
        there={
            "default": 9090,
            "minimum": 1024,
            "description": "TCP port on every pod where Prometheus reads metrics.",
        },
    )
    tensorboard: bool = key(True, "write TensorBoard's event files beside the checkpoints")
    every_steps: int = key(10, "steps between two progress lines", "steps", low=1)
    exposed_every_steps: int = key(
        0, "steps between two measurements of exposed communication, each a profiled step; 0: none", "steps", low=0
    )
    peak_tflops: float = key(
        0.0, "peak of one device at this precision, for MFU; 0: known GPUs by name", "TFLOP/s", low=0
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """A profiler trace on request."""

    dir: str = key("", "folder for rank 0's Chrome trace; empty: none")
    first_step: int = key(5, "first step of the trace, counted from the start of the process", "steps", low=1)
    steps: int = key(2, "steps in the trace", "steps", low=1)


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of one run."""

    run: str = key("run", "name of the run, and of its folder of checkpoints")
    model: str = key(
        "gpt2-124m",
        "preset of a model; `python -m trainer --models` lists them",
        job="model",
        there={"pattern": "^[a-z0-9][a-z0-9._-]*$"},
    )
    parallelism: Parallelism = key(
        "ddp",
        "how ranks share the model: a copy each (ddp), sharded by FSDP2 (fsdp), or DeepSpeed ZeRO",
        job="parallelism",
    )
    precision: Precision = key(
        "bf16", "number format of forward and backward passes; weights are kept in fp32", job="precision"
    )
    tf32: bool = key(
        False, "multiply fp32 matrices on a GPU in TF32: 8 times as fast on an A100, with 10 bits of mantissa for 23"
    )
    device: Literal["auto", "cpu", "cuda"] = key("auto", "where to compute; auto: a GPU where there is one")
    dataset: str = key(
        "",
        "folder or fsspec address of a dataset with its index.json, or of class folders of images",
        job="dataset.path",
        there={
            "default": "/data",
            "pattern": "^/data(/[^/]+)*$",
            "description": "Folder of the dataset inside the pods.",
        },
    )
    sequence_length: int = key(1024, "tokens of a sample", "tokens", low=1, job="sequenceLength")
    seed: int = key(1337, "seed of the initial weights and of the order of samples", low=0, job="seed")
    micro_batch: int = key(
        1, "samples that one rank takes through one forward and backward pass", "samples", low=1, job="batch.micro"
    )
    accumulation: int = key(
        1, "passes whose gradients are summed before the optimizer steps", "passes", low=1, job="batch.accumulation"
    )
    global_batch: int = key(
        0,
        "samples of one step over all ranks; 0: what micro_batch, accumulation and ranks give",
        "samples",
        low=0,
        job="batch.global",
        there={
            "default": 8,
            "minimum": 1,
            "description": "Samples of one optimizer step over all ranks; written out so that it can be checked.",
        },
    )
    nodes: int = key(
        0, "nodes of the job: the most that an elastic run may have, and what Ray is asked for", "nodes", low=0
    )
    min_nodes: int = key(
        0,
        "fewest nodes of an elastic run, which keeps global_batch at any size that divides it; 0: not elastic",
        "nodes",
        low=0,
    )
    gpus_per_node: int = key(0, "ranks of a node, as Ray is asked for them", "ranks", low=0)
    steps: int = key(1000, "optimizer steps in all", "steps", low=1, job="steps")
    learning_rate: float = key(
        3e-4, "peak learning rate, for the global batch", low=0, high=10, above=True, job="learningRate"
    )
    warmup_steps: int = key(
        100, "optimizer steps over which the learning rate rises to its peak", "steps", low=0, job="warmupSteps"
    )
    decay: Literal["cosine", "linear", "none"] = key("cosine", "how the learning rate falls after warm-up")
    final_learning_rate: float = key(0.1, "learning rate at the last step, as a part of the peak", low=0, high=1)
    weight_decay: float = key(0.1, "AdamW's decay of matrices; vectors are not decayed", low=0)
    beta1: float = key(0.9, "AdamW's decay of the mean gradient", low=0, high=1)
    beta2: float = key(0.95, "AdamW's decay of the mean square gradient", low=0, high=1)
    gradient_clipping: float = key(
        1.0,
        "largest norm of the gradient; longer ones are scaled down; 0: none",
        low=0,
        job="gradientClipping",
        there={
            "minimum": None,
            "exclusiveMinimum": 0,
            "description": "Largest norm of the gradient; longer ones are scaled down to it.",
        },
    )
    activation_checkpointing: Literal["none", "selective", "full"] = key(
        "none", "what backward computes again: nothing, all but matrix products and attention, or every layer"
    )
    compile: bool = key(False, "compile each layer with torch.compile")
    threads: int = key(
        0,
        "threads of a rank for work on the processor; 0: the node's cores shared out where the optimizer is offloaded, "
        "else as OMP_NUM_THREADS says",
        "threads",
        low=0,
    )
    collect_every_steps: int = key(
        50,
        "steps between two garbage collections of Python, on all ranks at once; 0: when Python likes",
        "steps",
        low=0,
    )
    grace_seconds: float = key(
        0.0,
        "time between SIGTERM and SIGKILL; 0: torchrun's, from TORCH_ELASTIC_SHUTDOWN_TIMEOUT, which is 30 if not set",
        "seconds",
        low=0,
    )
    start_timeout_seconds: float = key(
        1800.0,
        "longest time that ranks wait for each other until the first step is done: data is copied, weights are read",
        "seconds",
        low=1,
    )
    timeout_seconds: float = key(
        300.0,
        "longest time that ranks wait for each other in a collective after that; longer than two steps",
        "seconds",
        low=1,
    )
    scaling: Scaling = key(Scaling, "the known-good setting that learning_rate was scaled from")
    data: Data = key(Data, "reading samples")
    checkpoint: Checkpoint = key(Checkpoint, "saving and resuming")
    fsdp: Fsdp = key(Fsdp, "FSDP2")
    deepspeed: DeepSpeed = key(DeepSpeed, "DeepSpeed ZeRO")
    metrics: Metrics = key(Metrics, "what can be seen of a run")
    profile: Profile = key(Profile, "a profiler trace")
