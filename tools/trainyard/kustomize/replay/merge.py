"""Kustomize's strategic merge of a patch into an object, over nodes.

Scalars and lists of the patch go into the object as they are, so that they keep their marks. What a list loses when
it is replaced as a whole is told to `lost`.
"""

from collections.abc import Callable
from typing import Any

from trainyard.kustomize.replay.mergekeys import Shape
from trainyard.kustomize.replay.resources import text_of
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node

DIRECTIVE = "$patch"

Lost = Callable[[Path, Node, Node], None]
"""Called with the path of a replaced list, the old list and the new one."""


class MismatchError(Exception):
    """The patch has a list where the object has a map, or the like: kustomize refuses it too."""


def merge(old: Node, patch: Node, shape: Shape | None, lost: Lost, path: Path = ()) -> Node | None:
    """The object with the patch in it, or None where the patch deletes it. Changes `old`."""
    if type(patch.value) is not dict or type(old.value) is not dict:
        raise MismatchError
    directive = text_of(patch.child(DIRECTIVE))
    if directive == "delete":
        return None
    if directive == "replace":
        return without_directive(patch, shape)
    for key, new in patch.value.items():
        if key == DIRECTIVE:
            continue
        _field(old, key, new, shape, lost, (*path, key))
    return old


def without_directive(patch: Node, shape: Shape | None) -> Node:
    """A patch's map as it is added where there was none: without directives and nulls."""
    kept = {
        key: _added(child, key, shape)
        for key, child in patch.value.items()
        if key != DIRECTIVE and child.value is not None and not _deletes(child)
    }
    return Node(kept, patch.raw, patch.key_raw, patch.style, "", patch.tag)


def _added(new: Node, key: str, shape: Shape | None) -> Node:
    below = shape.below.get(key) if shape is not None else None
    if type(new.value) is dict:
        return without_directive(new, below)
    if type(new.value) is list and shape is not None and key in shape.lists:
        return _items_of(new, below)
    return new


def _items_of(new: Node, shape: Shape | None) -> Node:
    items = [
        without_directive(item, shape) if type(item.value) is dict else item
        for item in new.value
        if not _is_directive(item)
    ]
    return Node(items, new.raw, new.key_raw, new.style, "", new.tag)


def _quoted_as(old: Node, new: Node) -> Node:
    """Kustomize keeps the quotes of the old scalar, and so makes a text of a number that replaces one."""
    if old.tag != "str" or not old.style or new.tag == "str":
        return new
    return Node(new.text, new.raw, new.key_raw, old.style, new.text, "str")


def _deletes(node: Node) -> bool:
    return type(node.value) is dict and text_of(node.child(DIRECTIVE)) == "delete"


def _is_directive(item: Node) -> bool:
    return type(item.value) is dict and DIRECTIVE in item.value and (len(item.value) == 1 or _deletes(item))


def _field(old: Node, key: str, new: Node, shape: Shape | None, lost: Lost, path: Path) -> None:
    fields: dict[str, Node] = old.value
    present = fields.get(key)
    if new.value is None:
        fields.pop(key, None)
        return
    if present is None or present.value is None:
        if not _deletes(new):
            fields[key] = _added(new, key, shape)
        return
    below = shape.below.get(key) if shape is not None else None
    if type(new.value) is dict:
        merged = merge(present, new, below, lost, path)
        if merged is None:
            del fields[key]
        else:
            fields[key] = merged
        return
    if type(new.value) is not list:
        if type(present.value) in (dict, list):
            raise MismatchError
        fields[key] = _quoted_as(present, new)
        return
    if type(present.value) is not list:
        raise MismatchError
    keys = shape.lists.get(key) if shape is not None else None
    if keys is None:
        lost(path, present, new)
        fields[key] = new
        return
    merged_list = _merge_list(present, new, keys, below, lost, path)
    if merged_list is None:
        del fields[key]
    else:
        fields[key] = merged_list


def _merge_list(
    old: Node, new: Node, keys: tuple[str, ...], shape: Shape | None, lost: Lost, path: Path
) -> Node | None:
    directive = next(
        (text_of(i.child(DIRECTIVE)) for i in new.value if type(i.value) is dict and set(i.value) == {DIRECTIVE}), ""
    )
    if directive == "delete":
        return None
    if directive == "replace":
        return _items_of(new, shape)
    if not keys:
        held, texts = {text_of(item): item for item in old.value}, {text_of(item) for item in new.value}
        named = [held.get(text_of(item), item) for item in new.value]  # the patch sets none that is there
        return _list(old, [*named, *(item for item in old.value if text_of(item) not in texts)])
    first: list[Node] = []
    gone: list[Node] = []
    for item in new.value:
        matches = [each for each in old.value if _same(each, item, keys)]
        if not matches and any(_nearly(each, item, keys) for each in old.value):
            continue
        gone.extend(matches)
        if not matches:
            if not _deletes(item):
                first.append(without_directive(item, shape) if type(item.value) is dict else item)
            continue
        place = (*path, old.value.index(matches[0]))
        finders = {key: child for key in keys if (child := matches[0].child(key)) is not None}
        merged = merge(matches[0], item, shape, lost, place)
        if merged is not None:
            if type(merged.value) is dict:
                merged.value.update(finders)  # a patch finds its item by these, and sets none of them
            first.append(merged)
    dropped = {id(item) for item in gone}
    kept = {id(item) for item in first}
    if _keys_in_use(keys, (*old.value, *new.value)) > 1:
        # With several keys in use, kustomize leaves old items where they were and puts only new ones first.
        old_ids = {id(item) for item in old.value}
        added = [item for item in first if id(item) not in old_ids]
        result = [*added, *(item for item in old.value if id(item) in kept or id(item) not in dropped)]
    else:
        result = [*first, *(item for item in old.value if id(item) not in dropped)]
    return _list(old, result)


def _keys_in_use(keys: tuple[str, ...], items: tuple[Node, ...]) -> int:
    return sum(any(text_of(item.child(key)) for item in items) for key in keys)


def _same(one: Node, other: Node, keys: tuple[str, ...]) -> bool:
    if type(one.value) is not dict or type(other.value) is not dict:
        return False
    pairs = [(text_of(one.child(key)), text_of(other.child(key))) for key in keys]
    return pairs[0][0] != "" and all(a == b for a, b in pairs)


def _nearly(one: Node, other: Node, keys: tuple[str, ...]) -> bool:
    """Whether only one of the two names a second key, such as a port's protocol: kustomize then drops the patch's."""
    if type(one.value) is not dict or type(other.value) is not dict:
        return False
    pairs = [(text_of(one.child(key)), text_of(other.child(key))) for key in keys]
    return pairs[0][0] == pairs[0][1] != "" and all(a == b or not a or not b for a, b in pairs)


def _list(old: Node, items: list[Node]) -> Node:
    return Node(items, old.raw, old.key_raw, old.style, "", "seq")


def leaves(node: Node, path: Path = ()) -> list[tuple[Path, Node]]:
    """Scalars and empty containers below a node, with their paths."""
    value: Any = node.value
    if type(value) is dict and value:
        return [leaf for key, child in value.items() for leaf in leaves(child, (*path, key))]
    if type(value) is list and value:
        return [leaf for i, child in enumerate(value) for leaf in leaves(child, (*path, i))]
    return [(path, node)]
