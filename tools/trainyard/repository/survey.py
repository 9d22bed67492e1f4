"""What a repository of any layout holds that can be judged: for the hook, which nobody tells where the jobs are."""

import posixpath
import re
from collections.abc import Collection
from pathlib import Path

from trainyard.errors import InputError
from trainyard.kustomize.kustomization import load_graph
from trainyard.repository.changed import tracked_files
from trainyard.repository.discover import (
    KUSTOMIZATION_NAMES,
    MANIFEST_SUFFIXES,
    Discovery,
    Target,
    TargetKind,
    discover,
    is_trainyard,
)
from trainyard.yaml.sources import Sources

_GROUP = re.compile(r"^(?:apiVersion: *|\s*\"apiVersion\": *)[\"']?([^\s\"',/]*)", re.MULTILINE)
_KIND = re.compile(r"^(?:kind: *|\s*\"kind\": *)[\"']?(\w+)", re.MULTILINE)
_KUSTOMIZE = "kustomize.config.k8s.io"
_OURS = "trainyard.dev"
"""The group of settings, which no cluster gets."""


def survey(root: Path, differing: Collection[str], sources: Sources | None = None) -> Discovery:
    """Every job where the layout is Trainyard's. In any other, each kustomization that no other one reads, and the
    manifests beside a file that differs which no kustomization reads.

    Only files that git tracks count. What is not a Kubernetes object and the templates of a Helm chart are passed over,
    and so are manifests beside a kustomization that cannot be followed: they may be patches. `sources` are what files
    hold, where that is not what was saved.
    """
    if is_trainyard(root):
        return discover([], root, root)
    sources = sources or Sources(root)
    files = _outside_charts(tracked_files(root))
    folders, parts, read, lost = set(), set(), set(), set()
    for file in files:
        folder, name = _folder(file), posixpath.basename(file)
        if name not in KUSTOMIZATION_NAMES or _group(sources, file) not in ("", _KUSTOMIZE):
            continue
        folders.add(folder)
        read.add(file)
        if _kind(sources, file) == "Component":
            parts.add(folder)
        try:
            graph = load_graph(sources, folder)
        except InputError:
            lost.add(folder)
            continue
        parts.update(graph.kustomizations.keys() - {folder})
        read |= graph.files
    targets = [Target(folder, TargetKind.KUSTOMIZATION) for folder in sorted(folders - parts)]
    near = {_folder(file) for file in differing}
    manifests: dict[str, list[str]] = {}
    for file in files:
        folder = _folder(file)
        if folder not in near or file in read or folder in lost or not is_manifest(sources, file):
            continue
        # Beside a kustomization, which has the folder's name, each goes by its own.
        manifests.setdefault(file if folder in folders else folder, []).append(file)
    targets += [Target(name, TargetKind.MANIFESTS, tuple(there)) for name, there in manifests.items()]
    return Discovery(tuple(targets), (), whole=False)


def _folder(file: str) -> str:
    return posixpath.dirname(file) or "."


def _outside_charts(files: Collection[str]) -> list[str]:
    """What is not a part of a Helm chart, whose templates are not YAML, and lies in no hidden folder."""
    charts = tuple(file.removesuffix("Chart.yaml") for file in files if posixpath.basename(file) == "Chart.yaml")
    if "" in charts:
        return []
    hidden = re.compile(r"(?:^|/)\.")
    return sorted(file for file in files if not file.startswith(charts) and hidden.search(file) is None)


def is_manifest(sources: Sources, file: str) -> bool:
    """True for a file whose name and text are those of a Kubernetes object, and not of the linter's own settings."""
    if not file.endswith(MANIFEST_SUFFIXES) or not _kind(sources, file):
        return False
    return _group(sources, file) not in ("", _OURS)


def _group(sources: Sources, file: str) -> str:
    return _first(sources, file, _GROUP)


def _kind(sources: Sources, file: str) -> str:
    return _first(sources, file, _KIND)


def _first(sources: Sources, file: str, wanted: re.Pattern[str]) -> str:
    try:
        found = wanted.search(sources.text(file))
    except InputError:
        return ""
    return found[1] if found else ""
