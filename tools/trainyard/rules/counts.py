"""Numbers that rules compare and messages spell out."""

from typing import Any

from trainyard.workload.model import Container, Setting
from trainyard.workload.plain import digits


def whole(value: Any) -> int | None:
    """A whole number of zero or more, written as a number or as text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    return digits(value)


def gpu_limit(container: Container) -> Setting | None:
    """The limit that gives the container most of its GPUs."""
    limits = [limit for name, limit in container.limits.items() if is_gpu(name) and whole(limit.value)]
    return max(limits, key=lambda limit: whole(limit.value) or 0, default=None)


def is_gpu(resource: str) -> bool:
    """True for resources that count GPUs, whole or in slices."""
    return resource.endswith("/gpu") or resource.startswith("nvidia.com/mig-")


def number(count: int, noun: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
