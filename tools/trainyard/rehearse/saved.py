"""Files that a job writes to its claims, whatever program writes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.rehearse.open_beneath import sizes

_MOST_FILES = 20_000


@dataclass(slots=True)
class ClaimWrites:
    """What has come about in the claims of a job since a run began."""

    claims: Mapping[str, Path]
    """Folders of this machine by the name of the claim."""
    before: dict[tuple[str, str], int] = field(default_factory=dict)
    """Bytes of each file when the run began, by claim and path."""
    now: dict[tuple[str, str], int] = field(default_factory=dict)
    """The same of files that are new or larger."""
    steps: list[int] = field(default_factory=list)
    """The step that had been taken when a look found more."""

    def begin(self) -> None:
        """What is there belongs to nobody."""
        self.before, self.now, self.steps = self._files(), {}, []

    def look(self, step: int) -> None:
        """See what is new."""
        found = {name: size for name, size in self._files().items() if size > self.before.get(name, 0)}
        if any(size > self.now.get(name, 0) for name, size in found.items()):
            self.steps.append(step)
        self.now |= found

    @property
    def told(self) -> str:
        """How many files, where; empty where there is none."""
        if not self.now:
            return ""
        claims = ", ".join(sorted({claim for claim, _ in self.now}))
        count = len(self.now)
        return f"{count} file{'s' * (count != 1)} on claim {claims}, the last after step {self.steps[-1]}"

    def _files(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for claim, folder in self.claims.items():
            found |= {(claim, path): size for path, size in sizes(folder, _MOST_FILES).items()}
        return found
