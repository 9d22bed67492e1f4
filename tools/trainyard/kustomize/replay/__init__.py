"""Where each rendered value was written.

The declared kustomization is evaluated again, over nodes that carry their marks. It need not be complete: a position
counts only where the replayed value equals the rendered one, so what cannot be replayed has no known position.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from trainyard.findings.finding import Position
from trainyard.kustomize.replay.evaluate import Stage, evaluate
from trainyard.kustomize.replay.merge import leaves
from trainyard.kustomize.replay.patches import Patch, PatchEffect
from trainyard.kustomize.replay.records import End, Loss, ObjectId, PatchRecord, Wire, Write
from trainyard.kustomize.replay.replacements import Wiring
from trainyard.kustomize.replay.resources import Resource
from trainyard.kustomize.replay.trails import follow, start
from trainyard.objects.objects import Object
from trainyard.objects.origin import Trace
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node, RawMark, load_embedded
from trainyard.yaml.sources import Sources

__all__ = ["End", "Loss", "ObjectId", "PatchRecord", "Replay", "Wire", "Write", "replay"]

_OUR_GROUP = "trainyard.dev/"


def replay(root: FilePath, folder: str, sources: Sources | None = None) -> "Replay":
    """Evaluate a folder's kustomization over nodes. InputError where a file of it cannot be read.

    What the folder may ask for is not checked here: `kustomization.load_graph` does, before.
    """
    return Replay(evaluate(sources or Sources(root), folder))


class Replay:
    """The objects of one folder as replayed, and what was done to them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._facts = [each for each in stage.deleted if each.is_local or each.api_version.startswith(_OUR_GROUP)]
        self._by_id: dict[ObjectId, Node] = {}
        for resource in (*stage.resources, *self._facts):
            self._by_id.setdefault(_object_id(resource), resource.node)

    @property
    def objects(self) -> list[Node]:
        """Objects that are applied, in order."""
        return [resource.node for resource in self._stage.resources]

    @property
    def facts(self) -> list[Node]:
        """Local objects (TrainingJob, Fabric, Cluster) as they stood before the wiring deleted them."""
        return [resource.node for resource in self._facts]

    def node(self, rendered: Object) -> Node | None:
        """The replayed object of the same apiVersion, kind, namespace and name, or None."""
        return self._by_id.get(_id(rendered))

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """Where the field at `path` was written; for an absent one, the nearest field above it that is there.

        None where the replayed value differs from the rendered one. A map or list counts as equal where it has the same
        keys or length; its position is that of its key, as is every position with `at_key`. The path may go on into a
        JSON or YAML document in a string.
        """
        node = self.node(rendered)
        data: Any = rendered.data
        best = _place(node, data)
        for step in path:
            if node is None or not _same(node, data):
                return None
            if type(node.value) is str:
                best = node.key_mark or best
                node = load_embedded(node)
                if node is None:
                    return best
                data = node.plain()
            below = node.child(step)
            try:
                data = data[step]
            except (LookupError, TypeError):
                return best if below is None else None
            if below is None:
                return None
            node = below
            best = _place(node, data) or best
        if node is None or not _same(node, data):
            return None
        return (node.key_mark or best) if at_key else best

    def trace(self, rendered: Object, path: Path) -> Trace | None:
        """The nodes from an object down to a field, as far as they are there, and whether the wiring filled it.

        None where one of them differs from what was rendered, as in `position`.
        """
        node = self.node(rendered)
        data: Any = rendered.data
        if node is None or not _same(node, data):
            return None
        nodes = [node]
        for step in path:
            inner = load_embedded(node) if type(node.value) is str else node
            below = None if inner is None else inner.child(step)
            if below is None:
                break
            data = inner.plain() if inner is not None and inner is not node else data
            data = data[step]
            if not _same(below, data):
                return None
            node = below
            nodes.append(node)
        return Trace(tuple(nodes), self._wired.get((_id(rendered), path[: len(nodes) - 1])))

    @cached_property
    def _wired(self) -> dict[tuple[ObjectId, Path], Position | None]:
        """Where the value of each field that the wiring filled was copied from."""
        return {
            (wire.target.object, wire.target.path): wire.source.mark if wire.source is not None else wire.replacement
            for wire in self.wires
            if wire.target is not None
        }

    @cached_property
    def wires(self) -> tuple[Wire, ...]:
        """What each replacement did at each field, and replacements that reached nothing."""
        return tuple(self._wires())

    @cached_property
    def wires_from(self) -> dict[ObjectId, list[Wire]]:
        """Wires that wrote something, by the object that they read from."""
        found: dict[ObjectId, list[Wire]] = {}
        for wire in self.wires:
            if wire.source is not None and wire.target is not None:
                found.setdefault(wire.source.object, []).append(wire)
        return found

    @cached_property
    def wires_to(self) -> dict[ObjectId, list[Wire]]:
        """Wires that wrote something, by the object that they wrote to."""
        found: dict[ObjectId, list[Wire]] = {}
        for wire in self.wires:
            if wire.target is not None:
                found.setdefault(wire.target.object, []).append(wire)
        return found

    def _wires(self) -> Iterator[Wire]:
        final = _Final((*self._stage.resources, *self._stage.deleted))
        for resource in final.resources:
            target = final.id_of(resource)
            for wiring in resource.wired:
                path = follow(resource.node, wiring.path)
                end = None if path is None else End(target, path, wiring.written)
                yield _wire(wiring, _start(wiring, final), end)
        for wiring in self._stage.unreached:
            yield _wire(wiring, _start(wiring, final), None)

    @cached_property
    def patches(self) -> tuple[PatchRecord, ...]:
        """Every patch and what became of it."""
        unique = {id(patch): patch for patch in self._stage.patches}
        final = {
            id(resource): {id(node): path for path, node in leaves(resource.node)}
            for resource in (*self._stage.resources, *self._stage.deleted)
            if resource.patched
        }
        done: dict[int, list[tuple[Resource, PatchEffect]]] = {}
        for resource in (*self._stage.resources, *self._stage.deleted):
            for patched in resource.patched:
                done.setdefault(id(patched.patch), []).append((resource, patched))
        return tuple(_patch_record(patch, done.get(key, []), final) for key, patch in unique.items())


class _Final:
    """The resources of a stage, to look up by those that they were copied from."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.resources = resources
        self._ids: dict[int, ObjectId] = {}
        self._places: dict[int, int] = {}
        self._copies: dict[int, int] = {}
        for place, resource in enumerate(resources):
            self._places.setdefault(id(resource), place)
            self._copies.setdefault(id(resource.origin), place)

    def of(self, source: Resource) -> Resource:
        """The resource that a source became here: it may have been read while a base was built."""
        last = len(self.resources)
        place = min(self._places.get(id(source), last), self._copies.get(id(source.origin or source), last))
        return source if place == last else self.resources[place]

    def id_of(self, resource: Resource) -> ObjectId:
        """What it is called in the end."""
        found = self._ids.get(id(resource))
        if found is None:
            found = self._ids[id(resource)] = _object_id(resource)
        return found


def _start(wiring: Wiring, final: _Final) -> End | None:
    if wiring.value is None:
        return None
    if wiring.source is None:
        return End(_NOBODY, (), wiring.value)
    now = final.of(wiring.source)
    path = follow(now.node, wiring.source_path)
    return End(final.id_of(now), start(wiring.source_path) if path is None else path, wiring.value)


def _wire(wiring: Wiring, source: End | None, target: End | None) -> Wire:
    entry = _mark(wiring.replacement.entry)
    instead = None if wiring.instead is None else wiring.instead.mark
    return Wire(entry, source, target, wiring.delimited, wiring.problem, wiring.field, instead)


_NOBODY = ObjectId("", "", "", "")


def _patch_record(
    patch: Patch, done: list[tuple[Resource, PatchEffect]], final: dict[int, dict[int, Path]]
) -> PatchRecord:
    writes: list[Write] = []
    losses: list[Loss] = []
    for resource, patched in done:
        identity = _object_id(resource)
        paths = final.get(id(resource), {})
        for path, node in patched.written:
            now = paths.get(id(node))
            value, mark = node.plain(), node.mark
            writes.append(
                Write(identity, path if now is None else now, value, mark, now is None and id(resource) in final)
            )
        losses.extend(
            Loss(identity, path, name, fields, new.key_mark or new.mark) for path, name, fields, new in patched.lost
        )
    mark = patch.node.mark
    return PatchRecord(
        _mark(patch.entry),
        mark.file if mark is not None else "",
        mark,
        "json" if patch.is_json else "strategic",
        patch.kind,
        patch.matched,
        tuple(writes),
        tuple(losses),
        patch.failed,
    )


def _id(rendered: Object) -> ObjectId:
    return ObjectId(rendered.api_version, rendered.kind, rendered.namespace, rendered.name)


def _object_id(resource: Resource) -> ObjectId:
    return ObjectId(resource.api_version, resource.kind, resource.namespace, resource.name)


def _mark(raw: RawMark | None) -> Position | None:
    return None if raw is None else Position(raw[0].file, raw[1], raw[2], raw[3])


def _place(node: Node | None, data: Any) -> Position | None:
    if node is None or not _same(node, data):
        return None
    if type(node.value) in (dict, list):
        return node.key_mark or node.mark
    return node.mark


def _same(node: Node, data: Any) -> bool:
    value = node.value
    if type(value) is dict:
        return type(data) is dict and value.keys() == data.keys()
    if type(value) is list:
        return type(data) is list and len(value) == len(data)
    if type(value) is bool or type(data) is bool:
        return value is data
    if value is None:
        # A key without a value comes out of kustomize as an empty text.
        return data is None or (data == "" and not node.text)
    return bool(value == data) and (type(value) is str) == (type(data) is str)
