"""Services that a job's controller makes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeService:
    """One headless Service."""

    name: str
    pods: tuple[tuple[str, int], ...]
    """Role and index of the pods that it selects."""
    publishes_unready: bool
    """`publishNotReadyAddresses`: whether a pod's name resolves before the pod is ready."""
