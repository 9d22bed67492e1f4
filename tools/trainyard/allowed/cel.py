"""The statement in CEL, as variables of an admission policy.

`variables.Pod` is all that stands in an object where the statement has the definition Pod, `variables.ofPod` the names
of what is refused of it with a blank behind each, and `variables.refused` a list of all names that are refused.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.allowed.places import Kind, Places, by_kind, in_each, is_of
from trainyard.allowed.statement import Field, Fields, Items, Limit, Node, Statement, Values
from trainyard.allowed.statement_limits import LIMITS

POD: Kind = ("v1", "Pod")
"""What no job folder holds, and is judged when it is made."""
NOTHING = "''"


class Writer:
    """Writes what rules refuse."""

    def __init__(self, said: Statement) -> None:
        self._said = said
        self._places = Places({**said.kinds, POD: said.definitions["PodTemplate"]}, said.definitions)

    def variables(self, rule: str) -> dict[str, str]:
        """Variables by name, `refused` among them; they use `team` and `run`, as LIMITS do."""
        of_kinds = {kind: self._checks(rule, node, "object") for kind, node in self._said.kinds.items()}
        found = {"ofObject": by_kind(of_kinds, NOTHING)} | {
            f"of{name}": in_each(f"variables.{name}", self._places.depth(name), checks)
            for name, node in self._said.definitions.items()
            if (checks := self._checks(rule, node, "x", laid=self._places.is_laid(name))) != NOTHING
        }
        names = " + ".join(f"variables.{name}" for name, text in found.items() if text != NOTHING)
        refused = f"({names}).split(' ').filter(n, n != '' && !(n in variables.team.fields))"
        whole = " && ".join(f"!({is_of(kind)})" for kind in sorted(self._places.kinds_laid()))
        everything = {name: self._places.all_of(name) for name in self._said.definitions}
        return {**everything, "whole": whole, **found, "refused": refused}

    def kinds(self, rule: str) -> list[Kind]:
        """The kinds that hold something of which a rule speaks, pods among them."""
        spoken = [name for name, node in self._said.definitions.items() if self._checks(rule, node, "x") != NOTHING]
        within = frozenset[Kind]().union(*(self._places.kinds(name) for name in spoken))
        of_kinds = [kind for kind, node in self._said.kinds.items() if self._checks(rule, node, "object") != NOTHING]
        return [kind for kind in (*self._said.kinds, POD) if kind in within or kind in of_kinds]

    def _checks(self, rule: str, node: Fields, value: str, *, laid: bool = False) -> str:
        return _Checks(self._said, rule, laid).of(node, value)


@dataclass(frozen=True, slots=True)
class _Name:
    """How a field is called."""

    plain: str
    """In the statement, where a name of the author's is a star."""
    told: str
    """CEL for it with a blank behind, and with the author's name."""
    key: str
    """CEL for its last part."""


@dataclass(frozen=True, slots=True)
class _Checks:
    """Writes what a rule refuses of one definition or kind; what it defines elsewhere is left out."""

    said: Statement
    rule: str
    laid: bool

    def of(self, node: Fields, value: str) -> str:
        return _joined(self._fields(node, value, 0))

    def _node(self, node: Node, value: str, name: _Name, depth: int) -> str:
        if isinstance(node, Fields) and node is not self.said.definitions.get(node.name):
            return _joined(self._fields(node, value, depth))
        if isinstance(node, Items):
            item = f"i{depth}"
            below = self._node(node.item, item, name, depth + 1)
            return NOTHING if below == NOTHING else f"{value}.map({item}, {below}).join('')"
        if isinstance(node, Values):
            return self._unless(f"{value} in {_listed(node.values)}", name)
        if isinstance(node, Limit):
            return self._unless(LIMITS[node.limit].cel.format(value=value, key=name.key), name)
        return NOTHING

    def _fields(self, node: Fields, value: str, depth: int) -> Iterator[str]:
        for key, field in node.fields.items():
            yield self._known(node, value, key, field, depth)
            yield self._missing(node, value, key, field)
        begins = [f"{{0}}.startsWith({_literal(prefix)})" for prefix in node.prefixes]
        known = [f"{{0}} in {_listed(node.fields)}"] if node.fields else []
        for begin, field in zip(begins, node.prefixes.values(), strict=True):
            yield self._own(node, value, field, " && ".join((*(f"!({each})" for each in known), begin)), depth)
        other = " && ".join(f"!({each})" for each in (*known, *begins))
        if node.others is not None:
            yield self._own(node, value, node.others, other, depth)
        else:
            yield self._unknown(node, value, other, depth)
        if node.limit:
            name = _Name(node.name, _literal(f"{node.name} "), NOTHING)
            yield self._unless(LIMITS[node.limit].cel.format(value=value), name)

    def _known(self, node: Fields, value: str, key: str, field: Field, depth: int) -> str:
        name = _Name(f"{node.name}.{key}", _literal(f"{node.name}.{key} "), _literal(key))
        below = self._node(field.node, f"{value}[{_literal(key)}]", name, depth)
        return NOTHING if below == NOTHING else f"({_literal(key)} in {value} ? {below} : '')"

    def _missing(self, node: Fields, value: str, key: str, field: Field) -> str:
        if not field.required or not self._speaks_of(f"{node.name}.{key}", is_value=False):
            return NOTHING
        absent = f"!({_literal(key)} in {value})"
        if isinstance(field.node, Fields | Items):
            absent = f"({absent} || {value}[{_literal(key)}].size() == 0)"
        condition = f"variables.whole && {absent}" if self.laid else absent
        return f"({condition} ? {_literal(f'{node.name}.{key}:missing ')} : '')"

    def _own(self, node: Fields, value: str, field: Field, condition: str, depth: int) -> str:
        """Fields whose names are the author's."""
        key = f"k{depth}"
        name = _Name(f"{node.name}.*", f"'{node.name}.' + {key} + ' '", key)
        below = self._node(field.node, f"{value}[{key}]", name, depth + 1)
        chosen = f"{condition.format(key)}, " if condition else ""
        return NOTHING if below == NOTHING else f"{value}.map({key}, {chosen}{below}).join('')"

    def _unknown(self, node: Fields, value: str, condition: str, depth: int) -> str:
        """Fields that the statement does not know; but for those of which another rule speaks."""
        speaks = self._speaks_of(f"{node.name}.*", is_value=False)
        single = [each.removeprefix(f"{node.name}.") for each in self.said.rules if each.startswith(f"{node.name}.")]
        single = [each for each in single if "." not in each and each not in node.fields]
        other = [each for each in single if self._speaks_of(f"{node.name}.{each}", is_value=False) != speaks]
        if not speaks and not other:
            return NOTHING
        if not speaks:
            condition = f"{{0}} in {_listed(other)}"
        elif other:
            condition += f" && !({{0}} in {_listed(other)})"
        key = f"k{depth}"
        return f"{value}.map({key}, {condition.format(key)}, '{node.name}.' + {key} + ' ').join('')"

    def _unless(self, condition: str, name: _Name) -> str:
        return f"({condition} ? '' : {name.told})" if self._speaks_of(name.plain, is_value=True) else NOTHING

    def _speaks_of(self, name: str, *, is_value: bool) -> bool:
        return self.said.rule(name, is_value=is_value) == self.rule


def _joined(parts: Iterable[str]) -> str:
    return " +\n".join(part for part in parts if part != NOTHING) or NOTHING


def _listed(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
