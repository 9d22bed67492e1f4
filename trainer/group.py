"""The process group: which device a rank has, and how ranks talk."""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from trainer.errors import ConfigError
from trainer.launch import Ranks, set_meeting_point

BACKENDS = {"cuda": "cpu:gloo,cuda:nccl", "cpu": "gloo"}


def device_of(ranks: Ranks, asked: str) -> torch.device:
    """The device of a rank. Raises ConfigError where a GPU was asked for and this rank has none."""
    count = torch.cuda.device_count() if asked != "cpu" else 0
    if asked == "cpu" or (asked == "auto" and count == 0):
        return torch.device("cpu")
    if count == 0:
        raise ConfigError("device=cuda, but no GPU is visible")
    if ranks.local >= count and count > 1:
        raise ConfigError(
            f"local rank {ranks.local} has no GPU: {count} are visible for {ranks.local_world} ranks of the node"
        )
    return torch.device("cuda", ranks.local % count)


@contextmanager
def joined(
    ranks: Ranks, device: torch.device, timeout_seconds: float, environment: MutableMapping[str, str] = os.environ
) -> Iterator[None]:
    """Joins the process group: NCCL between GPUs, and gloo between CPUs in any case, for control and checkpoints.

    One that the launcher has joined already, as Ray does, is left as it is. After an error the group is not taken down
    in good order, which would wait for ranks that wait for this one: the process is to end.
    """
    if dist.is_initialized():
        yield
        return
    set_meeting_point(ranks, environment)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=timeout_seconds)
    store: Any = next(rendezvous("env://", ranks.rank, ranks.world, timeout=timeout))[0]
    if environment.get("GROUP_WORLD_SIZE") == "1":
        # A lone torchrun with a fixed port has one store for all its attempts, and the dead one's addresses are in it
        store = PrefixStore(f"attempt-{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(
        BACKENDS[device.type],
        store=store,
        rank=ranks.rank,
        world_size=ranks.world,
        timeout=timeout,
        device_id=device if device.type == "cuda" else None,
    )
    yield
    dist.destroy_process_group()


def set_timeout(seconds: float) -> None:
    """Sets the longest time that a collective of all ranks may take. All ranks call it together."""
    dist.barrier()  # no rank is in a collective that began under the longer time
    dist.set_timeout(timedelta(seconds=seconds))


def set_precision(tf32: bool, device: torch.device) -> None:
    """Says how a GPU multiplies matrices of fp32 numbers: as they are, or rounded to TF32. A CPU does as they are.

    The settings by backend, which are newer, cannot be read in the way in which torch.compile reads them.
    """
    torch.set_float32_matmul_precision("high" if tf32 and device.type == "cuda" else "highest")


def set_threads(count: int) -> None:
    """Sets the threads of this process for one operation on the host; 0 leaves them as they are."""
    if count:
        torch.set_num_threads(count)
