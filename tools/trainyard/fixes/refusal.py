"""Why a text is not edited."""

from dataclasses import dataclass


@dataclass(slots=True)
class Refusal(Exception):
    """A fix cannot be made in the source text. It is never made halfway."""

    reason: str
    """What stands in the way and, where that is known, where to edit by hand."""

    def __str__(self) -> str:
        return self.reason
