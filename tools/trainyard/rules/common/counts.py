"""Numbers that rules compare and messages spell out."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from trainyard.objects.quantity import quantity
from trainyard.workload.model import Container, PodSet, Setting
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


def at_once(pod_set: PodSet, amount: Callable[[Container], Fraction]) -> Fraction:
    """The most of a resource that the containers of a pod hold at any time: what scheduler and quotas count.

    Init containers run one after another before the rest; one that is always restarted goes on beside all that follow.
    Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    beside = most = Fraction(0)
    for container in pod_set.init_containers:
        if container.data.get("restartPolicy") == "Always":
            beside += amount(container)
            most = max(most, beside)
        else:
            most = max(most, beside + amount(container))
    return max(most, beside + sum((amount(container) for container in pod_set.containers), Fraction(0)))


def amount_of(container: Container, field: str, name: str) -> Fraction:
    """How much of a resource a container names under `requests` or `limits`; 0 where that is not known."""
    setting = (container.limits if field == "limits" else container.requests).get(name)
    amount = None if setting is None else quantity(setting.value)
    return Fraction(0) if amount is None else amount


def number(count: int, noun: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
