"""Plain manifests that are parts of something else: patches, which are not objects, and what a kustomization completes.

kustomize reads files from its own folder and below it, so the kustomization that names a file lies beside or above it.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from trainyard.errors import InputError
from trainyard.kustomize.kustomization import Kustomization, join
from trainyard.repository.discover import KUSTOMIZATION_NAMES
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

_CALLED_PATCH = re.compile(r"(.*/)?patches/[^/]+\Z|(.*[-_./])?patch[-_.][^/]*\Z")
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList")
"""Keys by which a strategic merge is told what to do; $setElementOrder and the last have a field's name behind them."""


def patched_by(sources: Sources, file: str) -> str:
    """What makes a file a patch, as a clause; empty where it is an object of its own."""
    for listing in _above(sources, file):
        if file in _patches(listing):
            return f"a patch of {listing.file}"
        if file in _resources(listing):
            return ""
    has_one = any(directive in sources.text(file) for directive in _DIRECTIVES)
    return "a patch" if has_one and any(map(_directs, sources.manifests(file))) else ""


def completed_by(sources: Sources, file: str) -> str:
    """Why fields that are missing in a file may come from elsewhere, as a clause; empty where nothing says so."""
    for listing in _above(sources, file):
        if file in _resources(listing):
            return f"{listing.file} may add them"
    return "its name says that it is a patch" if _CALLED_PATCH.match(file) else ""


def depends_on(file: str) -> Iterator[str]:
    """The files, there or not, that decide what is said here of a file."""
    for folder in _folders(file):
        yield from (join(folder, name) for name in KUSTOMIZATION_NAMES)


def _folders(file: str) -> Iterator[str]:
    while file not in ("", "."):
        file = posixpath.dirname(file)
        yield file or "."


def _above(sources: Sources, file: str) -> Iterator[Kustomization]:
    """The kustomizations that may name a file, the nearest first, those of other releases of kustomize too."""
    for name in depends_on(file):
        with suppress(InputError):
            for document in sources.documents(name) if sources.is_file(name) else ():
                if isinstance(document.value, dict):
                    yield Kustomization(posixpath.dirname(name) or ".", name, document)


def _patches(listing: Kustomization) -> set[str]:
    entries = [
        entry for name in ("patches", "patchesJson6902", "patchesStrategicMerge") for entry in _items(listing, name)
    ]
    return _files(listing, [entry.child("path") if isinstance(entry.value, dict) else entry for entry in entries])


def _resources(listing: Kustomization) -> set[str]:
    return _files(listing, _items(listing, "resources"))


def _items(listing: Kustomization, name: str) -> list[Node]:
    try:
        return listing.items(name)
    except InputError:
        return []


def _files(listing: Kustomization, paths: Sequence[Node | None]) -> set[str]:
    """Those that a kustomization names; a patch that it holds itself has lines, and no file such a name."""
    return {join(listing.folder, node.value) for node in paths if node is not None and isinstance(node.value, str)}


def _directs(document: Node) -> bool:
    """Whether a document tells a strategic merge what to do."""
    left, seen = [document], set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node.value, dict):
            if any(key.partition("/")[0] in _DIRECTIVES for key in node.value if isinstance(key, str)):
                return True
            left += node.value.values()
        elif isinstance(node.value, list):
            left += node.value
    return False
