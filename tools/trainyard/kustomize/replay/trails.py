"""A path that is followed later, when patches may have put other items in front of those that it leads through."""

from collections.abc import Sequence
from typing import NamedTuple

from trainyard.kustomize.replay.resources import text_of
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node


class Item(NamedTuple):
    """A step to an item of a list."""

    place: int
    """Its index then."""
    node: Node
    key: str
    """What tells it from the others of its list, such as `name`."""


Trail = tuple[str | Item, ...]


def trail(root: Node, path: Path, steps: Sequence[str]) -> Trail:
    """The path with its items. `steps` are those of the replacement that led there: `[name=trainer]` names the key."""
    node: Node | None = root
    found: list[str | Item] = []
    for step, written in zip(path, steps, strict=True):
        below = node.child(step) if node is not None else None
        if type(step) is int and below is not None:
            found.append(Item(step, below, _key(written)))
        else:
            found.append(str(step))
        node = below
    return tuple(found)


def follow(root: Node, steps: Trail) -> Path | None:
    """The path to the same items in an object that patches may have changed since; None where an item was taken out."""
    node: Node | None = root
    found: list[str | int] = []
    for each in steps:
        step = each if isinstance(each, str) or node is None else _place(node, each)
        if not isinstance(step, str | int):
            return None
        found.append(step)
        node = node.child(step) if node is not None else None
    return tuple(found)


def start(steps: Trail) -> Path:
    """The path as it was."""
    return tuple(each.place if isinstance(each, Item) else each for each in steps)


def _key(written: str) -> str:
    selects = written.startswith("[") and "=" in written
    return (written[1:].partition("=")[0] if selects else "") or "name"


def _place(node: Node, item: Item) -> int | None:
    """Where an item is now: the one written at the same place, else the one of the same name, else by its index."""
    items = node.value if type(node.value) is list else []
    near = sorted(range(len(items)), key=lambda index: abs(index - item.place))
    for index in near:
        if _is_same(items[index], item.node):
            return index
    name = text_of(item.node.child(item.key))
    if not name:
        return item.place if item.place < len(items) else None
    return next((index for index in near if text_of(items[index].child(item.key)) == name), None)


def _is_same(one: Node, other: Node) -> bool:
    """Whether two nodes are one, or copies of one that a file holds."""
    return one is other or (other.raw is not None and one.raw == other.raw)
