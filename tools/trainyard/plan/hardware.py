"""GPUs and nodes: the facts under schemas/hardware/, in SI units."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainyard.home import HOME

FOLDER = HOME / "schemas" / "hardware"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Rates are the vendor's, dense."""

    name: str
    generation: str
    """volta, turing, ampere, ada, hopper, blackwell or cdna."""
    memory: float
    """Bytes that a process has in all; where nobody has printed them, what is on the box less 2 %."""
    most: float
    """Bytes that it has at most: the same, or as many GiB as the box says GB."""
    hbm: float
    """Bytes/s."""
    tensor: float
    """Operations/s at 16 bits: bf16, or fp16 where there is no bf16."""
    fp32: float
    """Operations/s at fp32 without tensor cores."""
    fp8: float | None
    """Operations/s at 8 bits; None where it has no such units."""
    matmul: float
    """Best 16-bit matrix product that was measured, operations/s; where nobody has, the usual part of the peak."""
    processors: int
    """Streaming multiprocessors."""
    cycles: float
    """Cycles of all multiprocessors together, 1/s."""
    nvlink: float
    """Bytes/s to the other GPUs of its node, one direction; 0 where they talk over PCIe."""
    pcie: float
    """Bytes/s to the host, one direction."""
    domain: int
    """GPUs that one NVLink fabric joins; 0: those of the node."""
    bf16: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A node type and its way out."""

    name: str
    gpu: str
    gpus: int
    network: float
    """Bytes/s out of the node, one direction, all NICs."""
    transport: str
    """rdma or sockets."""


GIB = 2.0**30
_OF_THE_BOX = 0.98
"""What error correction and the driver leave of a GDDR card: 14.75 GiB of a T4's 16 GB, 22.1 of an L4's 24."""
_MATMUL_OF_PEAK = 0.8
"""Median of matmul / bf16 over the GPUs that have both."""


@cache
def gpus() -> Mapping[str, Gpu]:
    """Every GPU of gpus.yaml by name, its aliases included."""
    document = read("gpus.yaml")
    found = {name: _gpu(name, facts) for name, facts in document["gpus"].items()}
    return found | {alias: found[name] for alias, name in document["aliases"].items()}


@cache
def nodes() -> Mapping[str, Node]:
    """Every node type of nodes.yaml by name."""
    return {
        name: Node(name, facts["gpu"], facts["gpus"], facts["nics"] * facts["gbps"] * 1e9 / 8, facts["transport"])
        for name, facts in read("nodes.yaml")["nodes"].items()
    }


@cache
def usual_network() -> Mapping[str, float]:
    """Bytes/s that leave a usual node for each GPU in it, one direction, by GPU."""
    return {name: gbps * 1e9 / 8 for name, gbps in read("nodes.yaml")["usual"].items()}


def read(name: str) -> dict[str, Any]:
    """One file of schemas/hardware/."""
    document: dict[str, Any] = loaded((FOLDER / name).read_text(encoding="utf-8"))
    return document


def loaded(text: str) -> Any:
    """A YAML document. yaml.YAMLError where it is none."""
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _gpu(name: str, facts: Mapping[str, Any]) -> Gpu:
    # Switching power goes with the cube of the clock, so a lower limit costs its cube root in clock.
    slower = (facts["watts"] / facts.get("rated", facts["watts"])) ** (1 / 3)
    tensor = facts.get("bf16") or facts["fp16"]
    return Gpu(
        name=name,
        generation=facts["generation"],
        memory=facts["cuda"] * GIB if "cuda" in facts else facts["memory"] * 1e9 * _OF_THE_BOX,
        most=facts.get("cuda", facts["memory"]) * GIB,
        hbm=facts["hbm"] * 1e9,
        tensor=tensor * 1e12,
        fp32=facts.get("fp32", tensor / 16) * 1e12,
        fp8=facts["fp8"] * 1e12 if "fp8" in facts else None,
        matmul=facts.get("matmul", _MATMUL_OF_PEAK * tensor) * slower * 1e12,
        processors=facts["sms"],
        cycles=facts["sms"] * facts["clock"] * slower * 1e9,
        nvlink=facts["nvlink"] / 2 * 1e9,
        pcie=facts["pcie"] * 1e9,
        domain=facts.get("domain", 0),
        bf16="bf16" in facts,
    )
