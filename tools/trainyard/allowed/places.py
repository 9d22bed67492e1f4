"""Where an object has what the statement defines, in CEL: all its pods, say, or all containers of these.

What lies in lists in lists is a list of lists, since CEL has no way to make one of it. Each definition has a depth:
that of the deepest place that it stands in, and shallower ones are wrapped in lists of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from trainyard.allowed.statement import Fields, Items, Laid, Node

Kind = tuple[str, str]
Steps = tuple[str, ...]
_ITEMS, _VALUES = "[]", "*"
"""Steps into the items of a list, and into the values of a map whose keys are the author's."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a definition stands."""

    owner: Kind | str
    """A kind of objects, or the name of another definition."""
    steps: Steps
    """The way from there."""
    is_laid: bool
    """True where it is laid over another, so that nothing must be there."""

    @property
    def lists(self) -> int:
        """How many of the steps go into lists."""
        return sum(step in (_ITEMS, _VALUES) for step in self.steps)


class Places:
    """Where definitions stand in kinds, and in one another."""

    def __init__(self, kinds: Mapping[Kind, Fields], definitions: Mapping[str, Fields]) -> None:
        self._names = {id(node): name for name, node in definitions.items()}
        self._found: dict[str, list[Place]] = {name: [] for name in definitions}
        for kind, node in kinds.items():
            self._find(kind, node, 0)
        for name, node in definitions.items():
            self._find(name, node, id(node))
        self.depth = cache(self._depth)
        self.is_laid = cache(self._is_laid)
        self.kinds = cache(self._kinds)

    def _find(self, owner: Kind | str, node: Fields, own: int) -> None:
        for name, steps, is_laid in self._below(node, (), False, own):
            self._found[name].append(Place(owner, steps, is_laid))

    def _below(self, node: Node, steps: Steps, is_laid: bool, own: int) -> Iterator[tuple[str, Steps, bool]]:
        if id(node) in self._names and id(node) != own:
            yield self._names[id(node)], steps, is_laid
        elif isinstance(node, Laid):
            yield from self._below(node.node, steps, True, own)
        elif isinstance(node, Items):
            yield from self._below(node.item, (*steps, _ITEMS), is_laid, own)
        elif isinstance(node, Fields):
            for key, field in node.fields.items():
                yield from self._below(field.node, (*steps, key), is_laid, own)
            if node.others is not None:
                yield from self._below(node.others.node, (*steps, _VALUES), is_laid, own)

    def _depth(self, name: str) -> int:
        """How many lists `all_of` gives in one another."""
        return max(1, *(self._depth_of(place.owner) + place.lists for place in self._found[name]))

    def _depth_of(self, owner: Kind | str) -> int:
        return self._depth(owner) if isinstance(owner, str) else 0

    def _is_laid(self, name: str) -> bool:
        """Whether it stands somewhere, perhaps within another definition, where it is laid over another."""
        return any(
            place.is_laid or (isinstance(place.owner, str) and self._is_laid(place.owner))
            for place in self._found[name]
        )

    def _kinds(self, name: str) -> frozenset[Kind]:
        """The kinds that it may stand in."""
        owners = [place.owner for place in self._found[name]]
        return frozenset(
            kind for owner in owners for kind in (self._kinds(owner) if isinstance(owner, str) else (owner,))
        )

    def kinds_laid(self) -> frozenset[Kind]:
        """The kinds with something that is laid over another."""
        return frozenset(
            kind
            for found in self._found.values()
            for place in found
            if place.is_laid
            for kind in (self._kinds(place.owner) if isinstance(place.owner, str) else (place.owner,))
        )

    def all_of(self, name: str) -> str:
        """CEL for all of a definition that stands in `object`. It uses `variables.NAME` of those that it stands in."""
        depth, of_kinds, parts = self._depth(name), dict[Kind, list[str]](), list[str]()
        for place in self._found[name]:
            if isinstance(place.owner, str):
                parts.append(_in_each(place, self._depth(place.owner), depth))
            else:
                of_kinds.setdefault(place.owner, []).append(_lists(place.steps, "object", depth))
        if of_kinds:
            parts.append(f"({by_kind({kind: ' + '.join(found) for kind, found in of_kinds.items()}, '[]')})")
        return " +\n".join(parts)


def by_kind(choices: Mapping[Kind, str], otherwise: str) -> str:
    """CEL that chooses by the kind of `object`."""
    told = (f"{is_of(kind)} ? {found} :\n" for kind, found in choices.items() if found != otherwise)
    return "".join(told) + otherwise


def is_of(kind: Kind) -> str:
    """CEL for whether `object` is of a kind."""
    return f"object.apiVersion == '{kind[0]}' && object.kind == '{kind[1]}'"


def in_each(value: str, depth: int, text: str) -> str:
    """CEL that joins the texts that `text` gives for each `x` in lists of that depth."""
    for level in range(depth, 0, -1):
        variable = "x" if level == depth else f"l{level}"
        text = f"{f'l{level - 1}' if level > 1 else value}.map({variable}, {text}).join('')"
    return text


def _in_each(place: Place, own: int, depth: int) -> str:
    """All of a definition in all of another, whose depth is `own`."""
    if own == depth:
        found = _optional("x", place.steps)
        text = f"l{own - 1}.map(x, {found}.hasValue(), {found}.value())"
    else:
        text = f"l{own - 1}.map(x, {_lists(place.steps, 'x', depth - own)})"
    for level in range(own - 1, 0, -1):
        text = f"l{level - 1}.map(l{level}, {text})"
    return text.replace("l0.", f"variables.{place.owner}.", 1)


def _lists(steps: Steps, value: str, depth: int) -> str:
    """What the steps lead to, in lists of that depth, of which the steps may go into fewer."""
    first, step, rest = _until_list(steps)
    if sum(each in (_ITEMS, _VALUES) for each in steps) < depth:
        if depth > 1:
            return f"[{_lists(steps, value, depth - 1)}]"
        found = _optional(value, first)
        return f"({found}.hasValue() ? [{found}.value()] : [])" if first else f"[{value}]"
    variable = f"t{depth}"
    every = f"{_optional(value, first)}.orValue({'[]' if step == _ITEMS else '{}'})" if first else value
    item = variable if step == _ITEMS else f"{'.'.join((value, *first))}[{variable}]"
    if depth > 1:
        return f"{every}.map({variable}, {_lists(rest, item, depth - 1)})"
    if not rest:
        return every if step == _ITEMS else f"{every}.map({variable}, {item})"
    found = _optional(item, rest)
    return f"{every}.map({variable}, {found}.hasValue(), {found}.value())"


def _until_list(steps: Steps) -> tuple[Steps, str, Steps]:
    """The steps before the first into a list, that one, and those behind it."""
    for index, step in enumerate(steps):
        if step in (_ITEMS, _VALUES):
            return steps[:index], step, steps[index + 1 :]
    return steps, "", ()


def _optional(value: str, steps: Steps) -> str:
    return value + "".join(f".?{step}" for step in steps)
