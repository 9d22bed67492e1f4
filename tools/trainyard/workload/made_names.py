"""Names that a job's controller makes from the job's own, which become too long before that does."""

from dataclasses import dataclass

from trainyard.objects.objects import Spot

LONGEST = 63
"""Bytes of a DNS label and of a label's value."""


@dataclass(frozen=True, slots=True)
class MadeName:
    """One name."""

    what: str
    """What bears it: the last pod, the head Service."""
    text: str
    spot: Spot
    """What may be shortened beside the job's name."""
    limit: int = LONGEST
    is_label: bool = False
    """True for a label's value, which may hold dots."""
