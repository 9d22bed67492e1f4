"""Which teams a cluster's Argo CD makes applications for: those that clusters/<name>/argocd leads to."""

from collections.abc import Iterator
from typing import Any

from trainyard.kustomize.kustomization import Kustomization, join, load_graph
from trainyard.yaml.nodes import load_embedded
from trainyard.yaml.sources import Sources

_ARGO_CD = "base/gitops/argocd"
_TEAM = f"{_ARGO_CD}/team"


def argo_folder(cluster: str) -> str:
    """From where a cluster's Argo CD starts."""
    return f"clusters/{cluster}/argocd"


def argo_teams(sources: Sources, cluster: str) -> set[str] | None:
    """The teams that the folder names; None where it is not made of base/gitops/argocd, or a team's name is not found.

    InputError where it cannot be read.
    """
    graph = load_graph(sources, argo_folder(cluster))
    if _ARGO_CD not in graph.kustomizations:
        return None
    found: set[str] = set()
    for kustomization in graph.kustomizations.values():
        if any(join(kustomization.folder, str(entry.value)) == _TEAM for entry in kustomization.items("resources")):
            names = set(_names(kustomization, sources))
            if not names:
                return None
            found |= names
    return found


def _names(kustomization: Kustomization, sources: Sources) -> Iterator[str]:
    """What the patches of a team's folder put into metadata.name, whence base/gitops/argocd/team/wiring copies it."""
    for entry in kustomization.items("patches"):
        text, path = entry.child("patch"), entry.child("path")
        documents = []
        if text is not None and (document := load_embedded(text)) is not None:
            documents = [document]
        elif path is not None and path.value:
            documents = sources.documents(join(kustomization.folder, path.value))
        for each in documents:
            yield from filter(None, map(_name, _operations(each.plain())))


def _operations(patch: Any) -> list[Any]:
    """A JSON patch as its operations, a merge patch as one."""
    return patch if isinstance(patch, list) else [patch]


def _name(operation: Any) -> str:
    if not isinstance(operation, dict):
        return ""
    metadata = operation.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if operation.get("path") == "/metadata/name":
        name = operation.get("value")
    return name if isinstance(name, str) else ""
