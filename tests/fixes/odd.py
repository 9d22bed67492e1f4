"""YAML as people write it when nobody looks: every style, quotes, comments, anchors, and documents in strings."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from trainyard.errors import InputError
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import load_documents

FILE = "odd.yaml"
Draw = Any
KEYS = st.sampled_from(["a", "b", "c-d", "e.f/g", "h i", "yes", "1", "é"])
SCALARS = st.one_of(
    st.sampled_from(
        ["", "a", "true", "1", "2e-5", "x y", "it's", '"', "# no", "k: v", "[z]", "- a", "é", "a\\nb", "*x"]
    ),
    st.sampled_from([0, 7, -1, 1.5, True, False, None]),
    st.sampled_from(["two\nlines\n", "# not a comment\nb: 1\n"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=3)),
    max_leaves=8,
)
TREES = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


@dataclass(frozen=True, slots=True)
class Odd:
    """A text, and the way to the tree in it."""

    text: str
    prefix: Path
    tree: dict[str, Any]


class Writer:
    """Writes a tree, with every choice drawn."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.anchors: dict[str, Any] = {}
        self.notes = 0

    def some(self, *choices: Any) -> Any:
        """One of several."""
        return self.draw(st.sampled_from(choices))

    def scalar(self, value: Any, *, in_flow: bool) -> str:
        """A scalar on one line, in any quotes that keep its value."""
        if not isinstance(value, str):
            return json.dumps(value)
        single = "'" + value.replace("'", "''") + "'"
        forms = [json.dumps(value, ensure_ascii=False), *([single] if "\n" not in value else [])]
        if _reads_as(value, f"[{value}]" if in_flow else f"- {value}"):
            forms.append(value)
        return str(self.some(*forms))

    def flow(self, value: Any) -> str:
        """Any value on one line."""
        gap: str = self.some("", " ")
        if isinstance(value, dict):
            pairs = [f"{self.scalar(key, in_flow=True)}: {self.flow(item)}" for key, item in value.items()]
            return "{" + gap + f",{self.some(' ', '  ')}".join(pairs) + gap + "}"
        if isinstance(value, list):
            return "[" + gap + ", ".join(map(self.flow, value)) + gap + "]"
        return self.scalar(value, in_flow=True)

    def note(self, indent: int) -> list[str]:
        """A comment line, a blank one, or nothing."""
        kind = self.some("", "", "blank", "note")
        self.notes += 1
        return [] if not kind else [""] if kind == "blank" else [f"{' ' * indent}# note {self.notes}"]

    def block(self, value: Any, indent: int) -> list[str]:
        """A map or list that is not empty, as lines."""
        lines: list[str] = []
        blanks = " " * indent
        for key, item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
            lines += self.note(indent)
            head = "-" if key is None else f"{self.scalar(key, in_flow=False)}:"
            lines += self.entry(blanks + head, item, indent)
        return lines

    def entry(self, head: str, item: Any, indent: int) -> list[str]:
        """A key or dash with its value."""
        if isinstance(item, dict | list) and item and self.some(True, True, False):
            step = self.some(2, 4)
            below = self.block(item, indent + step)
            if head.endswith("-") and not below[0].lstrip().startswith("#") and below[0] and self.some(True, False):
                return [head + " " * (step - 1) + below[0].lstrip(), *below[1:]]
            return [head, *below]
        if isinstance(item, str) and item.endswith("\n") and self.some(True, False):
            return [f"{head} |", *(" " * (indent + 2) + line for line in item.rstrip("\n").split("\n"))]
        text = self.scalar(item, in_flow=False) if not isinstance(item, dict | list) else self.flow(item)
        if item and self.some(*[False] * 6, True):
            name = f"x{len(self.anchors)}"
            self.anchors[name] = item
            text = f"&{name} {text}"
        return [f"{head} {text}{self.some('', '', '  # aside')}"]


@st.composite
def odd_documents(draw: Draw) -> Odd:
    """A tree, and a text that holds it."""
    tree = draw(TREES)
    writer = Writer(draw)
    whole = draw(st.sampled_from(["file", "file", "block", "quoted", "json"]))
    if whole == "json":
        text = json.dumps(tree, indent=draw(st.sampled_from([None, 2])), ensure_ascii=False) + "\n"
        return Odd(_ended(draw, text), (), tree)
    if whole == "quoted":
        inner = json.dumps(tree, ensure_ascii=False)
        quoted = "'" + inner.replace("'", "''") + "'"
        return Odd(_ended(draw, f"kind: ConfigMap\ndata: {{c.json: {quoted}}}\n"), ("data", "c.json"), tree)
    lines = writer.block(tree, 0)
    if writer.anchors and draw(st.booleans()):
        lines += [f"shared{number}: *{name}" for number, name in enumerate(writer.anchors)]
        tree = tree | {f"shared{number}": item for number, item in enumerate(writer.anchors.values())}
    if whole == "block":
        indent = draw(st.sampled_from([2, 4]))
        held = [" " * indent + line if line else "" for line in lines]
        while not held[0].strip():
            held.pop(0)
        return Odd(
            _ended(draw, "\n".join(["data:", "  c.yaml: |", *held, "kind: ConfigMap", ""])), ("data", "c.yaml"), tree
        )
    return Odd(_ended(draw, "\n".join([*lines, ""])), (), tree)


def _ended(draw: Draw, text: str) -> str:
    text = text if draw(st.booleans()) else text.replace("\n", "\r\n")
    return ("\ufeff" if draw(st.sampled_from([False, False, True])) else "") + text


def _reads_as(value: str, text: str) -> bool:
    try:
        found = load_documents(text, FILE)
    except InputError:
        return False
    return len(found) == 1 and found[0].plain() == [value]
