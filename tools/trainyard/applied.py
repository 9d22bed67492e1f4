"""The folders of a cluster that Argo CD and Flux apply beside its jobs, and the way by which they come to each."""

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from trainyard.discover import Target, TargetKind, has_kustomization
from trainyard.listed import is_in_place
from trainyard.patterns import pattern

ENTRIES = ("argocd", "flux")
"""Where they begin: an administrator applies clusters/<name>/argocd or flux once, by hand."""

PARTS = (*ENTRIES, "flux/jobs", "flux/teams", "platform")
"""The folders below clusters/<name> to which these lead, as long as rule GIT021 has nothing to say of them."""

_FOLDER = pattern(rf"clusters/([^/]+)/({'|'.join(PARTS)})\Z")


def applied_targets(root: Path) -> list[Target]:
    """Those folders of all clusters that are there, to be judged with the jobs."""
    clusters = sorted(path.name for path in (root / "clusters").glob("*/"))
    folders = (f"clusters/{cluster}/{part}" for cluster in clusters for part in PARTS)
    return [Target(folder, TargetKind.KUSTOMIZATION) for folder in folders if has_kustomization(root / folder)]


def part_of(folder: str) -> tuple[str, str] | None:
    """Cluster and part of clusters/<cluster>/<part>; None for any other folder."""
    found = _FOLDER.match(folder)
    return (found[1], found[2]) if found else None


def followed(root: Path, render: Callable[[Collection[str]], Mapping[str, list[dict[str, Any]]]]) -> set[str]:
    """Every folder but jobs that is applied, found as Argo CD and Flux find it: by the paths that their objects name.

    `render` says what folders come to, nothing for one that does not render. A platform is among them even where
    neither leads to it: without them it is applied by hand.
    """
    found: set[str] = set()
    fresh = {target.name for target in applied_targets(root)}
    while fresh:
        found |= fresh
        named = {path for objects in render(fresh).values() for data in objects for path in _paths(data)}
        fresh = {path for path in named - found if not is_in_place(path) and (root / path).is_dir()}
    return found


def _paths(data: Mapping[str, Any]) -> Iterable[str]:
    """The folders that a Kustomization of Flux or an Application of Argo CD has applied."""
    spec = data.get("spec")
    group = str(data.get("apiVersion", "")).partition("/")[0]
    if not isinstance(spec, Mapping):
        return
    if (group, data.get("kind")) == ("kustomize.toolkit.fluxcd.io", "Kustomization"):
        sources: list[Any] = [spec]
    elif (group, data.get("kind")) == ("argoproj.io", "Application"):
        several = spec.get("sources")
        sources = [spec.get("source"), *(several if isinstance(several, list) else ())]
    else:
        return
    for source in sources:
        path = source.get("path", ".") if isinstance(source, Mapping) else None
        if isinstance(path, str) and not (normal := posixpath.normpath(f"/{path}")[1:]).startswith("/"):
            yield normal or "."
