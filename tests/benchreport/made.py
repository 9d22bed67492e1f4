"""Runs as the benchmark chain writes them, with known levels and noise."""

import random
from collections.abc import Mapping
from typing import Any

FINGERPRINT = {
    "hardware": {"gpu": "NVIDIA-H100-80GB-HBM3", "gpus a node": "8"},
    "firmware": {"vbios": "96.00.89.00.01"},
    "driver": {"nvidia": "580.95.05", "kernel": "6.8.0-87-generic"},
    "communication": {"nccl": "2.27.7", "torch": "2.9.1"},
    "image": {"gpt-3": "registry.example.com/trainyard/trainer@sha256:0b6a"},
    "topology": {"block a": "4"},
    "workload": {"gpt-3": "9f2c"},
}
RANKS = 8


def run(
    number: int,
    nodes: int,
    slow: Mapping[str, float] | None = None,
    cluster: float = 1.0,
    noise: float = 0.01,
    seed: int = 7,
) -> dict[str, Any]:
    """The document of run `number`: `slow` gives nodes a part of their speed, `cluster` all of them."""
    drawn = random.Random(seed * 1000 + number)
    levels = random.Random(seed)
    own = [levels.uniform(0.975, 1.025) for _ in range(nodes)]

    def about(value: float, part: float = noise) -> float:
        return value * drawn.lognormvariate(0, part)

    slow = slow or {}
    there, phases, slowest = {}, {}, 1.0
    for at in range(nodes):
        name = f"node-{at:03d}"
        speed = slow.get(name, 1.0)
        slowest = min(slowest, speed)
        mine = about(640 * cluster * own[at])
        gpus = [mine * (1 + 0.003 * gpu) for gpu in range(RANKS)]
        gpus[-1] *= 0.97
        gpus[2] *= speed
        there[name] = {
            "ranks": list(range(RANKS * at, RANKS * (at + 1))),
            "measures": {
                "product_tflops": [round(gpu, 3) for gpu in gpus],
                "memory_gb_per_second": [round(about(2900 * own[at]), 2) for _ in range(RANKS)],
            },
            "usage": {
                "gpu_utilization_ratio": round(about(0.97, 0.003), 4),
                "gpu_memory_used_ratio": 0.81,
                "cpu_utilization_ratio": round(about(0.22, 0.1), 4),
                "memory_used_ratio": round(about(0.35, 0.02), 4),
                "network_bytes_per_second": round(about(21e9, 0.02)),
            },
        }
        phases[name] = {"compute": 1.6 / speed / cluster, "data": 0.02, "checkpoint": 0.01}
    longest = max(sum(said.values()) for said in phases.values())
    for said in phases.values():
        said["communication"] = longest - sum(said.values()) + 0.3
    tokens = about(410e3 * nodes * cluster * slowest)
    steps = [
        {
            "step": step,
            "loss": round(about(10.8 * step**-0.25, 0.004), 4),
            "step_seconds": longest + 0.3,
            "tokens_per_second": round(about(tokens)),
        }
        for step in range(10, 410, 10)
    ]
    return {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "name": f"gpu-east-{number:03d}",
        "finished": f"2026-01-{1 + number // 24:02d}T{number % 24:02d}:00:00Z",
        "fingerprint": FINGERPRINT,
        "measures": {
            "gpt-3/tokens_per_second": round(tokens, 1),
            "collectives/all_reduce_64MiB_bus_gb_per_second": round(about(310 * cluster), 2),
        },
        "nodes": there,
        "workloads": {
            "gpt-3": {
                "steps": steps,
                "phases": phases,
                "kubernetes": {
                    "queue": 3.1,
                    "admission": 0.4,
                    "scheduling": 1.2,
                    "image pull": 42.0,
                    "start": 2.0,
                    "rendezvous": 11.5,
                    "first step": 9.3,
                },
            }
        },
    }
