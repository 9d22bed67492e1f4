"""Every regular expression of the toolkit with the ways in which it is asked, and texts that make a slow one slow."""

import ast
import importlib
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[1] / "tools"
METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII | re.VERBOSE
_MANY = 100
"""From so many repetitions on, a repeat counts as one without end."""


@dataclass(slots=True)
class Expression:
    """One regular expression."""

    name: str
    """file:name, or file:line for one without a name."""
    text: str
    flags: int
    methods: set[str] = field(default_factory=set)


def expressions(*parts: str) -> list[Expression]:
    """Those of the modules in some parts of tools/trainyard, given as paths below it."""
    files = sorted({file for part in parts for file in (TOOLS / "trainyard").glob(part)})
    trees = {file: ast.parse(file.read_text()) for file in files}
    found = {each.name: each for file, tree in trees.items() for each in (*_named(file, tree), *_literal(file, tree))}
    for file, tree in trees.items():
        homes = {name: _name(file, name) for name in _assigned(tree)} | dict(_imported(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Name):
                each = found.get(homes.get(node.value.id, ""))
                if each is not None:
                    each.methods.add(node.attr)
    for each in found.values():
        each.methods = each.methods or {"search"}
    return list(found.values())


def _name(file: Path, name: object) -> str:
    return f"{file.relative_to(TOOLS)}:{name}"


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainyard"):
            file = TOOLS / ((node.module or "").replace(".", "/") + ".py")
            yield from ((alias.asname or alias.name, _name(file, alias.name)) for alias in node.names)


def _named(file: Path, tree: ast.Module) -> Iterator[Expression]:
    """Those that a module holds under a name, alone or among others."""
    source = ast.unparse(tree)
    if "re.compile(" not in source:
        return
    module = importlib.import_module(".".join(file.relative_to(TOOLS).with_suffix("").parts))
    for name in _assigned(tree):
        held = list(_within(getattr(module, name)))
        for number, (text, flags) in enumerate(held):
            yield Expression(_name(file, name if len(held) == 1 else f"{name}[{number}]"), text, flags)


def _within(value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _within(each)
    elif hasattr(value, "finditer"):
        text = value.pattern
        yield text.decode() if isinstance(text, bytes) else text, value.flags & _FLAGS


def _literal(file: Path, tree: ast.Module) -> Iterator[Expression]:
    """Those that stand in a call, as in `re.search("...", text)`; not those put together there."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield Expression(_name(file, node.lineno), node.args[0].value, 0, {node.func.attr})


def attacks(expression: Expression, size: int) -> Iterator[str]:
    """Texts of about `size` characters: what the expression begins with or repeats, again and again, then no match.

    None where it repeats nothing without end.
    """
    tree = parser.parse(expression.text, expression.flags)
    signs: dict[str, None] = {}
    if not _gather(tree, signs):
        return
    alphabet = list(signs)[:14]
    begun = [text for text in dict.fromkeys(_beginnings(tree, "")) if text][:20]
    pumps = dict.fromkeys(
        [
            *alphabet,
            *(one + other for one in alphabet for other in alphabet if one != other),
            *begun,
            *(text + more for text in begun for more in (" ", "\n")),
        ]
    )
    yield from (pump * (size // len(pump)) + "\0" for pump in pumps)
    yield from (text + sign * size + "\0" for text in begun for sign in alphabet[:8])


def _gather(tree: Any, signs: dict[str, None]) -> bool:
    """Collect a character for each class and literal; True where one of them is repeated without end."""
    endless = False
    for node in tree:
        signs.update(dict.fromkeys(_signs(node)))
        endless |= node[0] in (codes.MAX_REPEAT, codes.MIN_REPEAT) and node[1][1] >= _MANY
        for below in _below(node):
            endless |= _gather(below, signs)
    return endless


_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_DIGIT: "x",
    codes.CATEGORY_NOT_WORD: "-",
    codes.CATEGORY_NOT_SPACE: "x",
}


def _signs(node: Any) -> list[str]:
    """A few characters that a node matches."""
    code, value = node
    if code is codes.LITERAL:
        return [chr(value)]
    if code is codes.ANY:
        return ["x"]
    if code is codes.NOT_LITERAL:
        return ["y" if chr(value) == "x" else "x"]
    if code is codes.RANGE:
        return [chr(value[0])]
    if code is codes.CATEGORY:
        return [_OF_CATEGORY[value]]
    if code is not codes.IN:
        return []
    if value[0][0] is not codes.NEGATE:
        return [sign for part in value for sign in _signs(part)][:8]
    return [sign for sign in "xa0 -./:=\"'$(," if not any(_holds(part, sign) for part in value[1:])][:4]


def _holds(part: Any, sign: str) -> bool:
    code, value = part
    if code is codes.RANGE:
        return bool(value[0] <= ord(sign) <= value[1])
    if code is codes.CATEGORY:
        is_it = {"0": sign.isdigit(), "a": sign.isalnum() or sign == "_", " ": sign.isspace()}
        wanted = {codes.CATEGORY_NOT_DIGIT: "0", codes.CATEGORY_NOT_WORD: "a", codes.CATEGORY_NOT_SPACE: " "}
        return not is_it[wanted[value]] if value in wanted else is_it[_OF_CATEGORY[value]]
    return bool(value == ord(sign))


def _below(node: Any) -> list[Any]:
    code, value = node
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [value[2]]
    if code is codes.SUBPATTERN:
        return [value[3]]
    if code is codes.BRANCH:
        return list(value[1])
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return [value] if code is codes.ATOMIC_GROUP else []


def _sample(tree: Any) -> str:
    """A short text that matches."""
    text = ""
    for node in tree:
        code, value = node
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            continue
        below = _below(node)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += _sample(below[0]) * max(value[0], 1)
        elif below:
            text += _sample(below[0])
        else:
            text += "".join(_signs(node)[:1])
    return text


def _beginnings(tree: Any, before: str) -> Iterator[str]:
    """Texts that match the first few parts, of the whole and of what it is made of."""
    for length, node in enumerate(tree):
        here = before + _sample(tree[:length])
        yield here
        for below in _below(node):
            yield from _beginnings(below, here)
    yield before + _sample(tree)
