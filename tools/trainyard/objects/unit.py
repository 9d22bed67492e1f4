"""One thing to judge: a rendered job folder, a rendered kustomization, or a set of plain manifests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.objects.objects import Object

_PLATFORMS = "clusters/"
_FLUX = ".toolkit.fluxcd.io"
_ARGO_CD = ("Application", "ApplicationSet", "AppProject")


def _is_for_gitops(obj: Object) -> bool:
    metadata = obj.data.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    owners = {str(key).partition("/")[0] for key in annotations} if isinstance(annotations, dict) else set()
    its_own = obj.group.endswith(_FLUX) or (obj.group == "argoproj.io" and obj.kind in _ARGO_CD)
    return its_own or any(owner == "argocd.argoproj.io" or owner.endswith(_FLUX) for owner in owners)


@dataclass(frozen=True, slots=True, eq=False)  # compared and hashed as the very same
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

    own: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What job.yaml itself says, without the defaults that it is merged into; empty where there is none."""

    images: tuple[str, ...] = ()
    """Where images may come from, as the settings of a repository of another layout say it; empty for anywhere."""

    @property
    def is_synced(self) -> bool:
        """Whether anything shows that Argo CD or Flux follows these files: that they make a job folder or lie under
        clusters/, an object of theirs beside the others, or an annotation for them."""
        return self.is_job or self.name.startswith(_PLATFORMS) or any(map(_is_for_gitops, self.objects))

    def fact(self, kind: str) -> Object | None:
        """The one fact of a kind, or None where it is missing or doubled."""
        found = [fact for fact in self.facts if fact.kind == kind]
        return found[0] if len(found) == 1 else None
