"""What is forecast: one run, complete. Nothing in it was measured on it."""

from dataclasses import dataclass
from typing import Literal

from trainyard.plan.hardware import Gpu
from trainyard.plan.shapes import Shape

Sharding = Literal["none", "optimizer", "gradients", "full"]
"""What data-parallel ranks share out: nothing (ddp), optimizer states (ZeRO-1), gradients too (2), all (3, FSDP)."""

Precision = Literal["fp32", "tf32", "16", "fp8"]
"""tf32: fp32 in memory, and matrices multiplied by tensor cores with 10 bits of mantissa."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """Parts of a forward pass that backward does again, 0 to 1."""

    name: str
    matrices: float
    attention: float
    elementwise: float


RECOMPUTE = {
    "none": Recompute("none", 0, 0, 0),
    # every second product is done again, attention is kept (torchtitan's selective op)
    "selective": Recompute("selective", 0.5, 0, 1),
    # some layers are done again whole, others not at all
    "quarter of layers": Recompute("quarter of layers", 0.25, 0.25, 0.25),
    "selective layer": Recompute("selective layer", 0.5, 0.5, 0.5),
    "most layers": Recompute("most layers", 0.75, 0.75, 0.75),
    # products and attention are kept, what is cheap is done again (the trainer of this repository)
    "cheap": Recompute("cheap", 0, 0, 1),
    # attention's core alone (Korthikanti et al. 2022)
    "attention": Recompute("attention", 0, 1, 0),
    "full": Recompute("full", 1, 1, 1),
}


@dataclass(frozen=True, slots=True)
class Stack:
    """What a training program does with the same arithmetic."""

    name: str
    attention: Literal["scores", "portable", "native"]
    """scores: writes them to memory. portable: a flash kernel for all GPUs. native: one made for the generation."""
    fused: bool
    """Elementwise work is joined into few kernels, by hand or by a compiler."""
    collectives: int
    """Gathers of weights a layer where weights are sharded."""
    hides_data_parallel: bool = True
    """Gradients and weights travel beside computing."""
    hides_tensor_parallel: bool = False
    fused_loss: bool = False
    """The loss keeps no fp32 copy of the logits."""
    master: bool = False
    """Keeps 16-bit weights beside fp32 ones in the optimizer (DeepSpeed, Megatron); else fp32 weights alone."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Every rank does the same work; batches are in samples."""

    shape: Shape
    gpu: Gpu
    gpus: int
    gpus_per_node: int
    network: float
    """Bytes/s out of a node, one direction."""
    transport: Literal["rdma", "sockets"]
    stack: Stack
    sharding: Sharding
    sequence: int
    """Tokens of a sample."""
    micro: int
    """Samples of one pass of one model replica."""
    accumulation: int
    """Passes an optimizer step; with pipeline stages, the micro-batches in the pipeline."""
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    interleave: int = 1
    """Model chunks of one pipeline stage."""
    shard: int = 0
    """Ranks that share one copy of the weights; 0: all data-parallel ranks."""
    reshard: bool = True
    """Weights are freed between forward and backward."""
    precision: Precision = "16"
    recompute: Recompute = RECOMPUTE["none"]
    reduce_bytes: int = 2
    """Bytes of a gradient's number on the wire."""
    offload: Literal["none", "optimizer", "all"] = "none"
    """What lies in host memory."""

    @property
    def data(self) -> int:
        """Replicas of the model, or of its shards."""
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def shard_ranks(self) -> int:
        """Ranks that share one copy of the weights; context-parallel ranks share too."""
        return self.shard or self.data * self.context

    @property
    def nodes(self) -> int:
        """Nodes, rounded up."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def tokens(self) -> int:
        """Tokens of one optimizer step, all ranks."""
        return self.samples * self.sequence

    @property
    def samples(self) -> int:
        """Samples of one optimizer step, all ranks."""
        return self.micro * self.accumulation * self.data
