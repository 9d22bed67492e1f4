"""One thing to judge: a rendered job folder, a rendered kustomization, or a set of plain manifests."""

from trainyard.frozen import dataclass
from trainyard.objects import Object


@dataclass(frozen=True, slots=True)
class Unit:
    """All objects that are applied together, and the facts they were made from."""

    name: str
    """The folder or file that the user would name: jobs/research/llama-8b-sft."""
    is_job: bool
    """True for a job folder (job.yaml and kustomization.yaml)."""
    objects: tuple[Object, ...]
    """What is applied, in rendered order."""
    facts: tuple[Object, ...] = ()
    """TrainingJob, Fabric and Cluster as the wiring saw them; empty for plain manifests."""

    platform: tuple[Object, ...] | None = None
    """What the cluster that it lands on holds before it comes; None where that is not known. Their indices count on
    after those of the facts."""

    def fact(self, kind: str) -> Object | None:
        """The one fact of a kind, or None where it is missing or doubled."""
        found = [fact for fact in self.facts if fact.kind == kind]
        return found[0] if len(found) == 1 else None
