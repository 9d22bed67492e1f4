"""Patches, strategic-merge and JSON, put on the objects that they mean."""

from dataclasses import dataclass, field

from trainyard.errors import InputError
from trainyard.kustomize.replay import jsonpatch, merge
from trainyard.kustomize.replay.mergekeys import shape_of
from trainyard.kustomize.replay.resources import Resource, Selector, text_of
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node, RawMark, load_documents, load_embedded
from trainyard.yaml.sources import Sources


@dataclass(slots=True, eq=False)
class Patch:
    """One patch of a `patches` entry, and what became of it."""

    entry: RawMark | None
    node: Node
    """The patch: a map to merge, or a list of operations."""
    target: Selector | None
    allow_name: bool = False
    allow_kind: bool = False
    matched: int = 0
    failed: bool = False

    @property
    def is_json(self) -> bool:
        """True for a list of operations."""
        return type(self.node.value) is list

    @property
    def kind(self) -> str:
        """Kind of the objects that it is for, as its target or the patch itself says."""
        if self.target is not None:
            return self.target.kind
        return "" if self.is_json else text_of(self.node.child("kind"))


@dataclass(slots=True, eq=False)
class PatchEffect:
    """What a patch did to one object."""

    patch: Patch
    written: list[tuple[Path, Node]] = field(default_factory=list)
    lost: list[tuple[Path, str, tuple[str, ...], Node]] = field(default_factory=list)


def read(sources: Sources, folder_file: str | None, inline: Node | None, entry: Node) -> list[Patch]:
    """The patches that an entry of `patches` (or of the older fields) holds or names."""
    documents: list[Node] = []
    if folder_file is not None:
        documents = sources.documents(folder_file)
    elif inline is not None:
        document = load_embedded(inline) if type(inline.value) is str else None
        documents = _several(inline) if document is None else [document]
    selector = entry.child("target") if type(entry.value) is dict else None
    target = Selector.of(selector) if selector is not None and selector.value is not None else None
    options = entry.child("options") if type(entry.value) is dict else None
    return [
        Patch(entry.raw, document, target, _flag(options, "allowNameChange"), _flag(options, "allowKindChange"))
        for document in documents
        if type(document.value) in (dict, list) and document.value
    ]


def _several(inline: Node) -> list[Node]:
    """Documents of an inline text that holds more than one: their positions are that of the text."""
    try:
        documents = load_documents(inline.text, "")
    except InputError:
        return []
    for document in documents:
        _place(document, inline.raw)
    return documents


def _place(node: Node, raw: RawMark | None) -> None:
    node.raw = raw
    node.key_raw = raw if node.key_raw is not None else None
    for child in node.value.values() if type(node.value) is dict else node.value if type(node.value) is list else ():
        _place(child, raw)


def _flag(options: Node | None, name: str) -> bool:
    node = options.child(name) if options is not None else None
    return node is not None and node.value is True


def apply(resources: list[Resource], patch: Patch) -> list[Resource]:
    """Put a patch on the objects. Returns those that it deleted, as they stood."""
    deleted = []
    for resource in _targets(resources, patch):
        patch.matched += 1
        if patch.is_json:
            _json(resource, patch)
        elif not _strategic(resource, patch):
            resources.remove(resource)
            deleted.append(resource)
    return deleted


def _targets(resources: list[Resource], patch: Patch) -> list[Resource]:
    if patch.target is not None:
        return [resource for resource in resources if resource.fits(patch.target)]
    if patch.is_json:
        return []
    node = patch.node
    name, namespace = text_of(node.at(("metadata", "name"))), text_of(node.at(("metadata", "namespace")))
    version, kind = text_of(node.child("apiVersion")), text_of(node.child("kind"))
    return [resource for resource in resources if resource.has_id(version, kind, name, namespace)]


def _json(resource: Resource, patch: Patch) -> None:
    resource.remember()
    try:
        written = jsonpatch.apply(resource.own(), patch.node.value)
    except jsonpatch.PatchError:
        patch.failed = True
        return
    resource.patched.append(PatchEffect(patch, [leaf for path, node in written for leaf in merge.leaves(node, path)]))


def _strategic(resource: Resource, patch: Patch) -> bool:
    """False where the patch deletes the object."""
    if text_of(patch.node.child(merge.DIRECTIVE)) == "delete":
        return False
    if patch.allow_name or patch.allow_kind:
        resource.remember()
    done = PatchEffect(patch)

    def lost(path: Path, old: Node, new: Node) -> None:
        done.lost.extend(_losses(path, old, new))

    new = patch.node.copy()
    shape = shape_of(resource.api_version, resource.kind)
    root = resource.own()
    kept = {path: root.at(path) for path in _kept(patch)}
    try:
        merged = merge.merge(root, new, shape, lost)
    except merge.MismatchError:
        patch.failed = True
        return True
    if merged is None:
        return False
    resource.node = merged
    _restore(merged, kept)
    fresh = {id(node) for _, node in merge.leaves(new)}
    done.written.extend((path, node) for path, node in merge.leaves(merged) if id(node) in fresh)
    resource.patched.append(done)
    return True


def _kept(patch: Patch) -> list[Path]:
    """Fields that a merge does not change, whatever the patch says."""
    paths: list[Path] = [("apiVersion",), ("metadata", "namespace")]
    if not patch.allow_kind:
        paths.append(("kind",))
    if not patch.allow_name:
        paths.append(("metadata", "name"))
    return paths


def _restore(root: Node, kept: dict[Path, Node | None]) -> None:
    for path, node in kept.items():
        parent = root.at(path[:-1])
        if parent is None or type(parent.value) is not dict:
            continue
        key = path[-1]
        if node is not None:
            parent.value[key] = node
        else:
            parent.value.pop(key, None)


def _losses(path: Path, old: Node, new: Node) -> list[tuple[Path, str, tuple[str, ...], Node]]:
    found = []
    for index, item in enumerate(old.value):
        if type(item.value) is not dict:
            continue
        name = text_of(item.child("name"))
        successor = next((each for each in new.value if name and text_of(each.child("name")) == name), None)
        if successor is None and not name and index < len(new.value):
            successor = new.value[index]
        fields = successor.value if successor is not None and type(successor.value) is dict else {}
        gone = tuple(key for key in item.value if key not in fields)
        if gone:
            found.append(((*path, index), name, gone, new))
    return found
