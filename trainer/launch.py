"""Which rank this process is: torchrun, Open MPI, Kubeflow's operators, Ray, or no launcher at all."""

import os
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from trainer.errors import ConfigError

PORT = "29400"


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place of a process among all."""

    rank: int
    world: int
    local: int
    local_world: int
    launcher: str

    @property
    def node(self) -> int:
        return self.rank // self.local_world


def find(environment: Mapping[str, str] = os.environ) -> Ranks:
    """The ranks that the launcher's environment tells.

    torchrun, Ray and PyTorchJob set RANK and WORLD_SIZE, Open MPI OMPI_COMM_WORLD_*; an operator that expects torchrun
    as the container's command, and finds another, leaves PET_*, where a node is one rank.
    """
    if "OMPI_COMM_WORLD_SIZE" in environment:
        parts = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
        rank, world, local, local_world = (_number(environment, f"OMPI_COMM_WORLD_{part}") for part in parts)
        return _checked(Ranks(rank, world, local, local_world, "mpirun"))
    if "RANK" in environment and "WORLD_SIZE" in environment:
        rank, world = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
        on_node = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", **environment}
        local, local_world = _number(on_node, "LOCAL_RANK"), _number(on_node, "LOCAL_WORLD_SIZE")
        launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in environment else "environment"
        return _checked(Ranks(rank, world, local, local_world, launcher))
    if "PET_NODE_RANK" in environment and "PET_NNODES" in environment:
        per_node = environment.get("PET_NPROC_PER_NODE", "1")
        if per_node not in ("1", "auto", "gpu", "cpu"):
            raise ConfigError(
                f"PET_NPROC_PER_NODE is {per_node}, and python starts one rank a pod: start torchrun instead"
            )
        return _checked(Ranks(_number(environment, "PET_NODE_RANK"), _number(environment, "PET_NNODES"), 0, 1, "PET"))
    return Ranks(0, 1, 0, 1, "alone")


def set_meeting_point(ranks: Ranks, environment: MutableMapping[str, str]) -> None:
    """MASTER_ADDR and MASTER_PORT where the launcher does not set them, and the ranks under torch's names."""
    environment.setdefault("RANK", str(ranks.rank))
    environment.setdefault("WORLD_SIZE", str(ranks.world))
    environment.setdefault("LOCAL_RANK", str(ranks.local))
    environment.setdefault("LOCAL_WORLD_SIZE", str(ranks.local_world))
    if "MASTER_ADDR" not in environment:
        address = environment.get("PET_MASTER_ADDR")
        if address is None and ranks.world != ranks.local_world:
            raise ConfigError(
                f"{ranks.launcher} started {ranks.world} ranks on several nodes: set MASTER_ADDR to rank 0's host"
            )
        environment["MASTER_ADDR"] = address or "127.0.0.1"
    if "MASTER_PORT" not in environment:
        environment["MASTER_PORT"] = environment.get("PET_MASTER_PORT") or (_free_port() if ranks.world == 1 else PORT)


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise ConfigError(f"environment {name} is a whole number, not {text!r}")
    return int(text)


def _checked(ranks: Ranks) -> Ranks:
    if not (ranks.rank < ranks.world and ranks.local < ranks.local_world <= ranks.world):
        raise ConfigError(
            f"{ranks.launcher} says rank {ranks.rank} of {ranks.world}, local rank {ranks.local} of {ranks.local_world}"
        )
    return ranks
