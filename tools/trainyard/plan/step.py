"""Time of one optimizer step: computing, communication that shows, pipeline bubble, optimizer, what the host adds."""

import math
from dataclasses import dataclass

from trainyard.plan import kernels
from trainyard.plan.collectives import Network, all_reduce, gather, network, point_to_point
from trainyard.plan.constants import Constants
from trainyard.plan.memory import local_parameters
from trainyard.plan.run import Run

ADAM_BYTES = 40
"""Traffic of AdamW a weight: weight, gradient, two moments read, three written, the norm, clearing of gradients."""

HOST_ADAM = 1.5e9
"""Weights a second that a node's CPUs update where the optimizer is offloaded."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one optimizer step, by what they are spent on."""

    compute: float
    recompute: float
    tensor_parallel: float
    pipeline: float
    """Bubble, and activations between stages."""
    data_parallel: float
    """Gradients and weights, as far as computing does not hide them."""
    optimizer: float
    host: float
    stragglers: float
    communication: float
    """All communication of data parallelism, hidden or not; no part of the sum."""

    @property
    def total(self) -> float:
        """The whole step."""
        spent = self.compute + self.recompute + self.tensor_parallel + self.pipeline + self.data_parallel
        return spent + self.optimizer + self.host + self.stragglers


def step(run: Run, constants: Constants) -> Step:
    """The step of a run."""
    links = network(run.gpu, run.gpus_per_node, run.network, run.transport, constants.hop_latency)
    layer, head = kernels.layer(run, constants), kernels.head(run, constants)
    layers, heads = _stage(run)
    computing = layers * (layer.forward + layer.backward) + heads * (head.forward + head.backward)
    recompute = layers * layer.recompute
    beside = layers * _beside(run, constants, links)
    micro = computing + recompute + beside
    passes = run.accumulation
    bubble = (run.pipeline - 1) / run.interleave * micro
    sends = _sends(run, links) * passes
    visible, all_of_it = _data_parallel(run, constants, links, layers, layer, head)
    optimizer = _optimizer(run)
    spent = passes * micro + bubble + sends + visible + optimizer + constants.step_overhead
    slowest = constants.spread * math.sqrt(2 * math.log(run.gpus)) if run.gpus > 1 else 0.0
    return Step(
        compute=passes * computing,
        recompute=passes * recompute,
        tensor_parallel=passes * beside,
        pipeline=bubble + sends,
        data_parallel=visible,
        optimizer=optimizer,
        host=constants.step_overhead,
        stragglers=slowest * spent,
        communication=all_of_it,
    )


def _stage(run: Run) -> tuple[float, float]:
    """Layers and heads of the pipeline stage that takes longest."""
    layers = run.shape.layers
    if run.pipeline == 1:
        return layers, 1
    if layers % run.pipeline == 0:
        return layers / run.pipeline, 1
    return layers / run.pipeline, 1 / run.pipeline


def _beside(run: Run, constants: Constants, links: Network) -> float:
    """Visible communication of a layer and micro-batch among tensor- and context-parallel ranks."""
    rows = run.micro * run.sequence / run.context
    visible = 0.0
    if run.tensor > 1:
        each = all_reduce(2 * rows * run.shape.width, run.tensor, 1, links)
        rounds = 4 + 2 * run.recompute.matrices
        hidden = constants.tensor_parallel_hidden if run.stack.hides_tensor_parallel else 0.0
        visible += rounds * each * (1 - hidden)
    if run.context > 1:
        # Keys and values go round once forward, with their gradients backward; attention hides what contention leaves.
        size = 2 * 2 * rows * run.context * run.shape.kv_width / run.tensor
        visible += constants.contention * 3 * gather(size, run.context, run.tensor, links)
    return visible


def _sends(run: Run, links: Network) -> float:
    """Activations of a micro-batch to the next stage and gradients back, which interleaving does once a chunk."""
    if run.pipeline == 1:
        return 0.0
    size = 2 * run.micro * run.sequence / run.context * run.shape.width / run.tensor
    far = run.tensor * run.context * run.data >= run.gpus_per_node or run.gpus > run.gpus_per_node
    return 2 * run.interleave * point_to_point(size, far, links)


def _data_parallel(
    run: Run, constants: Constants, links: Network, layers: float, layer: kernels.Pass, head: kernels.Pass
) -> tuple[float, float]:
    """Visible seconds, and all, of communication among data-parallel ranks in a step."""
    ranks = run.shard_ranks
    replicas = run.data * run.context // ranks
    stride = run.tensor
    if ranks * replicas <= 1:
        return 0.0, 0.0
    weights = local_parameters(run)
    size = 4 if run.precision in ("fp32", "tf32") else 2
    forward = layers * layer.forward + head.forward
    backward = layers * (layer.backward + layer.recompute) + head.backward
    passes = run.accumulation

    def over_layers(per_weight: float) -> float:
        """An all-gather or reduce-scatter of the stage's weights, unit by unit."""
        units = max(1.0, layers * run.stack.collectives)
        return units * gather(per_weight * weights / units, ranks, stride, links)

    across = all_reduce(run.reduce_bytes * weights / ranks, replicas, stride * ranks, links) if replicas > 1 else 0.0
    reduce = over_layers(run.reduce_bytes)
    if run.sharding == "none":
        reduce = all_reduce(run.reduce_bytes * weights, ranks, stride, links)
        return _overlap(run, constants, [(reduce, backward, 1)])
    fetch = over_layers(size)
    if run.sharding == "full" and run.pipeline == 1:
        again = fetch if run.reshard else 0.0
        return _overlap(
            run, constants, [(fetch, forward, passes), (again + reduce, backward, passes), (across, backward, 1)]
        )
    if run.sharding == "gradients":
        return _overlap(run, constants, [(reduce, backward, passes), (fetch, forward, 1), (across, backward, 1)])
    return _overlap(run, constants, [(reduce, backward, 1), (fetch, forward, 1), (across, backward, 1)])


def _overlap(run: Run, constants: Constants, parts: list[tuple[float, float, int]]) -> tuple[float, float]:
    """Communication beside computing: what is longer shows, and the rest still takes units and bandwidth from it."""
    visible = everything = 0.0
    for communication, window, times in parts:
        everything += times * communication
        if not run.stack.hides_data_parallel:
            visible += times * communication
            continue
        covered = min(communication, window)
        visible += times * (constants.contention * covered + communication - covered)
    return visible, everything


def _optimizer(run: Run) -> float:
    weights = local_parameters(run) / (1 if run.sharding == "none" else run.shard_ranks)
    if run.offload == "none":
        return ADAM_BYTES * weights / run.gpu.hbm
    moved = 4 * weights / run.gpu.pcie
    return moved + weights * min(run.gpus, run.gpus_per_node) / HOST_ADAM
