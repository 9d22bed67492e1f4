"""Field paths of replacements: `spec.containers.[name=trainer].env.0.value`, `data.[a.b/c]`, `*`."""

import re
from functools import lru_cache

from trainyard.kustomize.replay.patterns import part
from trainyard.kustomize.replay.resources import empty_map, string, text_of
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node

_INDEX = re.compile(r"[0-9]{1,9}\Z", re.ASCII)


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    """The steps of a path. A key in brackets may hold dots; `\\.` is a dot too."""
    steps: list[str] = []
    open_bracket: list[str] = []
    for piece in _pieces(path):
        if open_bracket:
            open_bracket.append(piece)
        elif piece.startswith("[") and not piece.endswith("]"):
            open_bracket = [piece]
            continue
        elif not piece.startswith("["):
            steps.append(piece)
            continue
        else:
            # Kustomize takes brackets off a key only where it had to look for their end, or holds no dot.
            open_bracket = [piece]
        if piece.endswith("]"):
            whole = ".".join(open_bracket)
            single = len(open_bracket) == 1
            steps.append(whole if single or "=" in whole else whole.strip("[]"))
            open_bracket = []
    if open_bracket:
        steps.append(".".join(open_bracket).strip("[]"))
    return tuple(steps)


def _pieces(path: str) -> list[str]:
    pieces = path.split(".")
    if len(pieces) > 1 and not pieces[0]:
        pieces = pieces[1:]
    joined = [pieces[0]]
    for piece in pieces[1:]:
        if joined[-1].endswith("\\"):
            joined[-1] = joined[-1][:-1] + "." + piece
        else:
            joined.append(piece)
    return joined


@lru_cache(maxsize=4096)
def source_steps(path: str) -> tuple[str, ...]:
    """The steps of a source's path, where blanks count for nothing."""
    return tuple(stripped for step in split(path) if (stripped := step.strip()))


def lookup(node: Node, path: str) -> tuple[Path, Node] | None:
    """The field that a source names, with its plain path, or None."""
    found: Path = ()
    for step in source_steps(path):
        place = _source_step(node, step)
        below = node.child(place) if place is not None else None
        if below is None or below.value is None or place is None:
            return None
        node, found = below, (*found, place)
    return found, node


@lru_cache(maxsize=4096)
def _is_name(step: str) -> bool:
    """True for a step that can only be a key of a map."""
    return not (_INDEX.match(step) or step in ("-", "*") or (step.startswith("[") and step.endswith("]")))


def _source_step(node: Node, step: str) -> str | int | None:
    if _is_name(step):
        return step
    if _INDEX.match(step):
        return int(step)
    if step == "-":
        return -1
    if step.startswith("[") and step.endswith("]"):
        key, _, value = step[1:-1].partition("=")
        for index, item in enumerate(node.value if type(node.value) is list else ()):
            if text_of(item.child(key) if key else item) == value:
                return index
        return None
    return step


def match(node: Node, steps: tuple[str, ...], create: str = "", path: Path = ()) -> list[tuple[Node, str | int, Path]]:
    """Every field that a target's path leads to: the map or list that holds it, its key there, and its whole path.

    `create` is the tag (str, map, seq ...) of what to make where the path is missing; empty for not.
    """
    if not steps:
        return []
    step, rest = steps[0], steps[1:]
    places = _places(node, step, rest, create)
    if not rest:
        return [(node, place, (*path, place)) for place in places]
    found = []
    for place in places:
        below = node.child(place)
        if below is not None:
            found.extend(match(below, rest, create, (*path, place)))
    return found


def replaced_by(node: Node, steps: tuple[str, ...]) -> Node | None:
    """What stands on the way to a field that is not there, and was written in another file than the object."""
    for end in range(1, len(steps)):
        for holder, key, _ in match(node, steps[:end]):
            below = holder.child(key)
            if below is not None and below.mark and node.mark and below.mark.file != node.mark.file:
                return below
    return None


def _places(node: Node, step: str, rest: tuple[str, ...], create: str) -> list[str | int]:
    value = node.value
    if type(value) is dict and step in value and _is_name(step):
        return [step]
    if _INDEX.match(step):
        if type(value) is not list:
            return []
        index = int(step)
        if index == len(value) and create:
            value.append(_made(rest, create))
        return [index] if index < len(value) else []
    if step.startswith("[") and step.endswith("]"):
        return _items(node, step, create)
    if step == "*":
        return list(range(len(value))) if type(value) is list else []
    if type(value) is not dict:
        return []
    if step not in value:
        if not create:
            return []
        value[step] = _made(rest, create)
    return [step]


def _items(node: Node, step: str, create: str) -> list[str | int]:
    if type(node.value) is not list:
        return []
    key, _, pattern = step[1:-1].partition("=")
    fits = part(pattern)
    found: list[str | int] = []
    for index, item in enumerate(node.value):
        held = item.child(key) if key else item
        if held is not None and held.value is not None and fits(text_of(held)):
            found.append(index)
    if found or not create:
        return found
    made = string(pattern, None)
    if key:
        made = empty_map()
        made.value[key] = string(pattern, None)
    node.value.append(made)
    return [len(node.value) - 1]


def _made(rest: tuple[str, ...], create: str) -> Node:
    if not rest:
        return (
            Node({}, None, tag="map")
            if create == "map"
            else Node([], None, tag="seq")
            if create == "seq"
            else Node(None, None)
        )
    listed = bool(_INDEX.match(rest[0])) or (rest[0].startswith("[") and rest[0].endswith("]"))
    return Node([], None, tag="seq") if listed else empty_map()
