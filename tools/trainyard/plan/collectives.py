"""How long a collective takes: a ring or a tree over the GPUs of nodes, and over nodes.

Bandwidth: a ring of n ranks moves (n-1)/n of the bytes over every link, so the slower of NVLink and network decides.
Latency: a message passes every hop of a ring, and log2(nodes) of a tree (NCCL's tuning model, src/graph/tuning.cc).
"""

import math
from dataclasses import dataclass

from trainyard.plan.hardware import Gpu

NVLINK_OF_LINE = 0.8
"""Ring busbw of one direction's line rate: 240 of 300 GB/s on A100, 365 of 450 on H200, 740 of 900 on B200."""

PCIE_OF_LINE = 0.6
"""Ring busbw over PCIe: 35 to 45 of 64 GB/s on H100 PCIe."""

NETWORK_OF_LINE = {"rdma": 0.73, "sockets": 0.60}
"""Large collectives of the line rate: EFA v4 at 1 GiB and above; 120 of 200 Gbit/s with TCP over SR-IOV."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One of NCCL's protocols: latencies in seconds."""

    name: str
    bandwidth: float
    """Part of the full bandwidth."""
    ring: tuple[float, float, float]
    """Start, a hop inside the node, a hop between nodes."""
    tree: tuple[float, float, float]


PROTOCOLS = (
    Protocol("ll", 0.25, (3.6e-6, 0.47e-6, 2.7e-6), (4.4e-6, 0.52e-6, 5.0e-6)),
    Protocol("ll128", 0.92, (10.0e-6, 1.9e-6, 4.0e-6), (4.4e-6, 1.2e-6, 8.5e-6)),
    Protocol("simple", 1.0, (8.4e-6, 3.4e-6, 9.6e-6), (0.0, 28e-6, 50e-6)),
)


@dataclass(frozen=True, slots=True)
class Network:
    """The links of a run."""

    inside: float
    """Bytes/s of one GPU to the others of its node, one direction, as collectives reach it."""
    outside: float
    """Bytes/s of one GPU's share of the node's way out, as collectives reach it."""
    per_node: int
    """GPUs that NVLink or PCIe joins."""
    hop_latency: float
    """How much longer a hop is than in NCCL's table."""


def network(gpu: Gpu, gpus_per_node: int, out: float, transport: str, hop_latency: float) -> Network:
    """Links of nodes of `gpus_per_node` GPUs, with `out` bytes/s of line rate each."""
    inside = gpu.nvlink * NVLINK_OF_LINE if gpu.nvlink else gpu.pcie * PCIE_OF_LINE
    outside = out * NETWORK_OF_LINE[transport] / gpus_per_node
    return Network(inside, outside, gpus_per_node, hop_latency)


def gather(size: float, ranks: int, stride: int, links: Network) -> float:
    """Seconds of an all-gather, or of a reduce-scatter, of `size` bytes.

    Ranks of the group lie `stride` GPUs apart: 1 for neighbours, the tensor-parallel degree for data parallelism.
    """
    if ranks <= 1:
        return 0.0
    return min(_ring(size, ranks, stride, links, 1, protocol) for protocol in PROTOCOLS)


def all_reduce(size: float, ranks: int, stride: int, links: Network) -> float:
    """Seconds of an all-reduce of `size` bytes: the better of a ring and a tree."""
    if ranks <= 1:
        return 0.0
    best = min(_ring(size, ranks, stride, links, 2, protocol) for protocol in PROTOCOLS)
    inside, nodes = _spread(ranks, stride, links)
    if nodes == 1:
        return best
    for protocol in PROTOCOLS:
        start, hop, far = protocol.tree
        latency = start + 2 * ((inside - 1) * hop + math.log2(nodes) * far)
        moved = _bytes_time(size, ranks, inside, nodes, links) * 2 / protocol.bandwidth
        best = min(best, latency * links.hop_latency + moved)
    return best


def point_to_point(size: float, far: bool, links: Network) -> float:
    """Seconds to send `size` bytes to one GPU, in another node if `far`."""
    start, hop, out = PROTOCOLS[-1].ring
    if not far:
        return (start + hop) * links.hop_latency + size / links.inside
    return (start + out) * links.hop_latency + size / links.outside


def _ring(size: float, ranks: int, stride: int, links: Network, rounds: int, protocol: Protocol) -> float:
    inside, nodes = _spread(ranks, stride, links)
    start, hop, far = protocol.ring
    latency = start + rounds * ((ranks - nodes) * hop + (nodes - 1) * far)
    moved = _bytes_time(size, ranks, inside, nodes, links) * rounds / protocol.bandwidth
    return latency * links.hop_latency + moved


def _bytes_time(size: float, ranks: int, inside: int, nodes: int, links: Network) -> float:
    near = size * (ranks - 1) / ranks / links.inside if inside > 1 else 0.0
    # The GPUs of a node each carry their share of what enters it.
    far = size * (nodes - 1) / nodes / (links.outside * inside) if nodes > 1 else 0.0
    return max(near, far)


def _spread(ranks: int, stride: int, links: Network) -> tuple[int, int]:
    """Ranks of the group in one node, and nodes that the group spans."""
    inside = max(1, min(ranks, links.per_node // stride))
    return inside, -(-ranks // inside)
