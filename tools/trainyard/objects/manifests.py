"""Plain manifest files as a unit, with the place of every field."""

from collections.abc import Sequence

from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.objects.objects import Object
from trainyard.objects.origin import Trace
from trainyard.objects.unit import Unit
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources


class ManifestOrigin:
    """Where the fields of plain manifests stand: in the file itself."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there."""
        return place_in(self._nodes[rendered.index], path, at_key)

    def trace(self, rendered: Object, path: Path) -> Trace | None:
        """The way to a field; it is always known."""
        return Trace(way_to(self._nodes[rendered.index], path))


def way_to(root: Node, path: Path) -> tuple[Node, ...]:
    """The nodes from a document down to a field, as far as they are there."""
    nodes = [root]
    for length in range(1, len(path) + 1):
        below = nodes[-1].at(path[length - 1 : length])
        if below is None:
            break
        nodes.append(below)
    return tuple(nodes)


def place_in(root: Node, path: Path, at_key: bool) -> Position | None:
    """Where a field of a document stands, or the nearest one above it that is there.

    That is its value where it holds one, and its key for a map or a list, or where `at_key` asks for it.
    """
    for length in range(len(path), 0, -1):
        node = root.at(path[:length])
        if node is not None:
            is_value = length == len(path) and not isinstance(node.value, dict | list)
            return node.mark if is_value and not at_key else node.key_mark or node.mark
    return root.mark


def read_manifests(name: str, files: Sequence[str], sources: Sources) -> tuple[Unit, ManifestOrigin]:
    """Objects of some files, `kind: List` taken apart. InputError where one is not an object, or there is none.

    Of a key that stands twice the last value counts; `sources.twice` tells of it.
    """
    nodes: list[Node] = []
    for file in files:
        for document in sources.manifests(file):
            nodes.extend(_objects(document, file))
    if not nodes:
        raise InputError("holds no Kubernetes object", name)
    objects = tuple(Object.of(node.plain(), index) for index, node in enumerate(nodes))
    return Unit(name, False, objects), ManifestOrigin(nodes)


def _objects(document: Node, file: str) -> list[Node]:
    mark = document.mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if not isinstance(document.value, dict):
        raise InputError("expected a Kubernetes object, found no map", file, line, column)
    if "kind" not in document.value or "apiVersion" not in document.value:
        missing = "kind" if "kind" not in document.value else "apiVersion"
        raise InputError(f"is not a Kubernetes object: {missing} is missing", file, line, column)
    items = document.value.get("items")
    if document.value["kind"].value != "List" or items is None:
        return [document]
    if not isinstance(items.value, list):
        raise InputError("items of a List must be a list", file, line, column)
    return [found for item in items.value for found in _objects(item, file)]
