"""JSON patches (RFC 6902) over nodes."""

import re

from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node

_INDEX = re.compile(r"-?[0-9]{1,9}\Z", re.ASCII)


class PatchError(Exception):
    """An operation cannot be done: kustomize stops there too."""


def apply(root: Node, operations: list[Node]) -> list[tuple[Path, Node]]:
    """Do the operations in order. Returns what was written: path and node. Changes `root`."""
    written: list[tuple[Path, Node]] = []
    for operation in operations:
        done = _one(root, operation)
        if done is not None:
            written.append(done)
    return written


def _one(root: Node, operation: Node) -> tuple[Path, Node] | None:
    name, pointer = _text(operation, "op"), _text(operation, "path")
    parts = _split(pointer)
    if name == "test":
        value = operation.child("value")
        found = _find(root, parts)
        if value is None or found is None or found.plain() != value.plain():
            raise PatchError
        return None
    if name == "remove":
        _remove(root, parts)
        return None
    if name in ("move", "copy"):
        source = _split(_text(operation, "from"))
        found = _find(root, source)
        if found is None:
            raise PatchError
        value = found.copy()
        if name == "move":
            _remove(root, source)
    else:
        value = operation.child("value")
        if value is None or name not in ("add", "replace"):
            raise PatchError
    return _put(root, parts, value.copy(), replace=name == "replace")


def _text(operation: Node, key: str) -> str:
    node = operation.child(key)
    if node is None or type(node.value) is not str:
        raise PatchError
    return node.value


def _split(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise PatchError
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _step(node: Node, part: str) -> str | int:
    if type(node.value) is not list:
        return part
    if not _INDEX.match(part):
        raise PatchError
    index = int(part)
    return index + len(node.value) if index < 0 else index


def _find(root: Node, parts: list[str]) -> Node | None:
    node: Node | None = root
    for part in parts:
        if node is None:
            return None
        node = node.child(_step(node, part))
    return node


def _parent(root: Node, parts: list[str]) -> tuple[Node, Path]:
    node = root
    path: Path = ()
    for part in parts[:-1]:
        step = _step(node, part)
        below = node.child(step)
        if below is None:
            raise PatchError
        node, path = below, (*path, step)
    return node, path


def _put(root: Node, parts: list[str], value: Node, *, replace: bool) -> tuple[Path, Node]:
    parent, path = _parent(root, parts)
    last = parts[-1]
    if type(parent.value) is dict:
        present = parent.value.get(last)
        if replace and present is None:
            raise PatchError
        parent.value[last] = value.under(value.key_raw if present is None else present.key_raw)
        return (*path, last), parent.value[last]
    if type(parent.value) is not list:
        raise PatchError
    index = len(parent.value) if last == "-" else _step(parent, last)
    assert type(index) is int
    value = value.under(None)
    if replace:
        if not 0 <= index < len(parent.value):
            raise PatchError
        parent.value[index] = value
    elif 0 <= index <= len(parent.value):
        parent.value.insert(index, value)
    else:
        raise PatchError
    return (*path, index), value


def _remove(root: Node, parts: list[str]) -> None:
    parent, _ = _parent(root, parts)
    step = _step(parent, parts[-1])
    if parent.child(step) is None:
        raise PatchError
    del parent.value[step]
