"""The folders of clusters/<name> that Argo CD and Flux apply beside its jobs, and how they reach each."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.kustomize.kustomization import files_read
from trainyard.lint.outcome import Judgement
from trainyard.repository.discover import Target, TargetKind, has_kustomization
from trainyard.repository.listed import clusters, is_in_place
from trainyard.yaml.sources import Sources

ENTRIES = ("argocd", "flux", "flux/jobs", "flux/teams")
"""Folders below clusters/<name> that say what is applied, by whom and from where. An administrator applies argocd or
flux once, by hand; these lead to all others, as long as rule GIT021 has nothing to say of them."""

_ENTRY = re.compile(rf"clusters/([^/]+)/({'|'.join(ENTRIES)})\Z")


def entry_targets(root: Path) -> list[Target]:
    """Those folders of all clusters that are there, and their platforms, to be judged with the jobs.

    A platform that no job lands on is judged by nobody else.
    """
    return [Target(folder, TargetKind.KUSTOMIZATION) for folder in _there(root, (*ENTRIES, "platform"))]


def entry_of(folder: str) -> tuple[str, str] | None:
    """Cluster and entry of clusters/<cluster>/<entry>; None for any other folder."""
    found = _ENTRY.match(folder)
    return (found[1], found[2]) if found else None


def told_by_no_job(judgements: Sequence[Judgement], entries: Collection[str], sources: Sources) -> list[Judgement]:
    """The judgements, those of entry points without what a job tells of the facts that they share."""
    places = [
        (finding.rule, finding.place.position)
        for judgement in judgements
        if judgement.target.name not in entries
        for finding in judgement.findings
        if finding.place.position is not None
    ]
    told = {place.file for _, place in places}
    return [
        replace(
            each,
            findings=tuple(
                finding
                for finding in each.findings
                if not finding.input_error and (finding.rule, finding.place.position) not in places
            ),
        )
        if told and each.target.name in entries and _reads_any(sources, each.target.name, told)
        else each
        for each in judgements
    ]


def _reads_any(sources: Sources, folder: str, files: Collection[str]) -> bool:
    try:
        return not files_read(sources.root, folder, sources).isdisjoint(files)
    except InputError as error:
        return error.file in files


def followed(root: Path, render: Callable[[Collection[str]], Mapping[str, list[dict[str, Any]]]]) -> set[str]:
    """Every folder but jobs that is applied, found as Argo CD and Flux find it: by the paths that their objects name.

    `render` says what folders come to, nothing for one that does not render. A platform is among them even where
    neither leads to it: without them it is applied by hand.
    """
    found: set[str] = set()
    fresh = set(_there(root, (*ENTRIES, "platform")))
    while fresh:
        found |= fresh
        named = {path for objects in render(fresh).values() for data in objects for path in _paths(data)}
        fresh = {path for path in named - found if not is_in_place(path) and (root / path).is_dir()}
    return found


def _there(root: Path, parts: Iterable[str]) -> list[str]:
    folders = [f"clusters/{name}/{part}" for name in clusters(root) for part in parts]
    return [folder for folder in folders if has_kustomization(root / folder)]


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
