"""Services that a job's controller makes."""

from dataclasses import dataclass

from trainyard.objects.objects import Spot


@dataclass(frozen=True, slots=True)
class MadeService:
    """One headless Service."""

    name: str
    pods: tuple[tuple[str, int], ...]
    """Role and index of the pods that it selects."""
    publishes_unready: bool
    """`publishNotReadyAddresses`: whether a pod's name resolves before the pod is ready."""
    spot: Spot | None = None
    """The field of the job that decides about that; None where none does."""
