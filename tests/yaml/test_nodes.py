"""YAML as Kubernetes reads it: values, places, bounds, and one clear line for what cannot be read."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kustomize.replay.support import rendered
from trainyard import limits
from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.yaml.nodes import Node, load_documents, load_embedded

# What the Go library makes of a plain scalar.
SCALARS: dict[str, Any] = {
    "1": 1,
    "+12": 12,
    "-7": -7,
    "010": 8,
    "0o17": 15,
    "0x1F": 31,
    "-0x1f": -31,
    "0b101": 5,
    "1_000": 1000,
    "08": 8.0,
    "18446744073709551615": 18446744073709551615,
    "18446744073709551616": 1.8446744073709552e19,
    "-9223372036854775809": -9.223372036854775808e18,
    "1e3": 1000.0,
    "2e-5": 2e-5,
    "3.0e2": 300.0,
    ".5": 0.5,
    "+.5": 0.5,
    "1.": 1.0,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "y": "y",
    "null": None,
    "Null": None,
    "~": None,
    "nUll": "nUll",
    "1:30": "1:30",
    "190:20:30": "190:20:30",
    "1.2.3": "1.2.3",
    "0x": "0x",
    "0b2": "0b2",
    "0o8": "0o8",
    "_1": "_1",
    "1e": "1e",
    "e1": "e1",
    "1Gi": "1Gi",
    "100m": "100m",
    '"1"': "1",
    "'yes'": "yes",
    '"a\\tb"': "a\tb",
    "!!str 1": "1",
    "!!float 1": 1.0,
    '!!int "3"': 3,
    "word": "word",
    "two words": "two words",
    "=": "=",
}
TIMES = {"2026-11-21": "2026-11-21", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00"}


def load(text: str) -> Node:
    (document,) = load_documents(text, "file.yaml")
    return document


@pytest.mark.parametrize("text", [*SCALARS, *TIMES])
def test_scalars(text: str) -> None:
    value = load(f"a: {text}\n").plain()["a"]
    expected = {**SCALARS, **TIMES}[text]
    assert (value, type(value)) == (expected, type(expected))


def test_the_table_is_what_kustomize_makes_of_it(tmp_path: Path) -> None:
    lines = "".join(f"  k{i}: {text}\n" for i, text in enumerate(SCALARS) if text not in ("null", "Null", "~"))
    (tmp_path / "thing.yaml").write_text(
        f"apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: x}}\nspec:\n{lines}"
    )
    (tmp_path / "kustomization.yaml").write_text("resources: [thing.yaml]\n")
    (thing,) = rendered(tmp_path, ".")
    expected = {f"k{i}": value for i, value in enumerate(SCALARS.values()) if value is not None}
    assert thing.data["spec"] == expected


keys = st.text("abcdefgh-.", min_size=1, max_size=6).filter(lambda key: key.strip("-.") == key)
trees = st.recursive(
    st.sampled_from(list(SCALARS)),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(keys, below, max_size=4),
    max_leaves=15,
)


def flow(tree: Any) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f'"{key}": {flow(child)}' for key, child in tree.items()) + "}"
    return "[" + ", ".join(flow(child) for child in tree) + "]" if isinstance(tree, list) else tree


def block(tree: Any, indent: int = 0) -> str:
    margin = "\n" + " " * indent
    if isinstance(tree, dict) and tree:
        return "".join(f"{margin}{key}: {block(child, indent + 2)}" for key, child in tree.items())
    if isinstance(tree, list) and tree:
        return "".join(f"{margin}- {block(child, indent + 2)}" for child in tree)
    return flow(tree)


def meant(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: meant(child) for key, child in tree.items()}
    return [meant(child) for child in tree] if isinstance(tree, list) else SCALARS[tree]


@settings(max_examples=150, deadline=None)
@given(trees, st.booleans())
def test_documents_mean_what_their_scalars_mean(tree: Any, in_flow: bool) -> None:
    text = f"root: {flow(tree) if in_flow else block(tree, 2)}\n"
    document = load(text)
    assert document.plain() == {"root": meant(tree)}
    lines = text.split("\n")
    for node in every(document):
        if type(node.value) not in (dict, list):
            mark = node.mark
            assert mark is not None
            written = lines[mark.line - 1][mark.column - 1 : mark.column - 1 + mark.length]
            assert SCALARS[written] == node.value


def every(node: Node) -> list[Node]:
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return [node, *(each for child in below for each in every(child))]


def test_marks() -> None:
    document = load("a:\n  b: [x, 'it''s']\n  # c\n  ü: {d: |\n}\n".replace("|\n}", "1}"))
    assert document.at(("a", "b", 1)).mark == Position("file.yaml", 2, 10, 7)  # type: ignore[union-attr]
    assert document.at(("a", "b")).key_mark == Position("file.yaml", 2, 3, 1)  # type: ignore[union-attr]
    assert document.at(("a", "b")).mark == Position("file.yaml", 2, 6, 12)  # type: ignore[union-attr]
    assert document.at(("a", "ü", "d")).mark == Position("file.yaml", 4, 10, 1)  # type: ignore[union-attr]
    assert document.at(("a",)).mark == Position("file.yaml", 2, 3, 1)  # type: ignore[union-attr]
    assert document.at(("a", "missing", "b")) is None
    assert document.at(("a", "b", 2)) is None
    assert document.at(("a", "b", "0")) is None


def test_documents() -> None:
    assert [node.plain() for node in load_documents("---\n---\n# only a comment\n---\na: 1\n---\n[b]\n...\n", "f")] == [
        {"a": 1},
        ["b"],
    ]
    assert load_documents("", "f") == []
    assert load("\ufeffa: 1\n").at(("a",)).mark == Position("file.yaml", 1, 4, 1)  # type: ignore[union-attr]
    assert load("a: 1\r\nb: 2\r\n").plain() == {"a": 1, "b": 2}


def test_aliases_and_merge_keys() -> None:
    text = """
base: &base {a: 1, b: 2}
other: &other {b: 3, c: 4}
merged:
  <<: [*base, *other]
  a: own
late:
  a: own
  <<: *base
quoted: {"<<": 1}
key: &k name
*k : aliased
"""
    assert load(text).plain() == {
        "base": {"a": 1, "b": 2},
        "other": {"b": 3, "c": 4},
        "merged": {"a": "own", "b": 2, "c": 4},
        "late": {"a": "own", "b": 2},
        "quoted": {"<<": 1},
        "key": "name",
        "name": "aliased",
    }


CANNOT_BE_READ = {
    "a: 1\nb: 2\na: 3\n": '3:1: key "a" stands twice in one map; the first stands on line 1',
    'x: {"a": 1, a: 2}\n': '1:13: key "a" stands twice in one map; the first stands on line 1',
    "a:\n\tb: 1\n": "2:1: a tab indents this line; YAML is indented with spaces",
    "a: [1\nb: 2\n": ("2:2: a list in [ ] lacks a comma or its closing bracket (what it belongs to starts on line 1)"),
    "a: {b: 1\n": "2:1: a map in { } lacks a comma or its closing brace (what it belongs to starts on line 1)",
    "a: b: c\n": "1:5: a second colon on this line, or a wrong indentation; quote text with a colon",
    'a: "x\n': "2:1: a quoted text is never closed (it starts on line 1)",
    "a:\n  - b\n c: d\n": (
        "3:2: a key is missing, or this line does not line up with the keys above it "
        "(what it belongs to starts on line 1)"
    ),
    "- a\nb: c\n": "2:1: this line does not line up with the list above it (what it belongs to starts on line 1)",
    "1: 2\n": '1:1: a key is a number; keys are strings: write "1" in quotes',
    "true: 2\n": '1:1: a key is true or false; keys are strings: write "true" in quotes',
    "? [a]\n: b\n": "1:3: a key is a map or a list; keys are strings",
    ": b\n": "1:1: a key is missing, or this line does not line up with the keys above it",
    "a: *x\n": "1:4: alias *x names no anchor above it",
    "a: &x [*x]\n": "1:8: alias *x stands inside the value that it names",
    "a: &x 1\n---\nb: *x\n": "3:4: alias *x names no anchor above it",
    "<<: 1\n": "1:5: << takes a map or a list of maps",
    "a: \x01\n": "1:4: control character U+0001 may not stand in YAML",
    "a: b\n  \x1b[31m\n": "2:3: control character U+001B may not stand in YAML",
    "a: @x\n": "1:4: a value may not start with @: put it in quotes",
    'a: "\\q"\n': "1:5: an unknown escape after a backslash; use single quotes to keep backslashes",
    "a: - b\n": "1:4: a list item may not start here: put it on a line of its own",
}


@pytest.mark.parametrize("text", CANNOT_BE_READ)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError) as caught:
        load_documents(text, "file.yaml")
    assert str(caught.value) == f"file.yaml:{CANNOT_BE_READ[text]}"


def test_keys_that_stand_twice_are_collected_and_the_last_value_counts() -> None:
    twice: list[InputError] = []
    text = 'a: 1\nb: &b {c: 1, c: 2}\na: {d: 1}\nd: *b\n"a": 3\n---\na: [{e: 1, e: 2}]\n'

    documents = load_documents(text, "file.yaml", twice)

    assert [document.plain() for document in documents] == [{"a": 3, "b": {"c": 2}, "d": {"c": 2}}, {"a": [{"e": 2}]}]
    assert list(map(str, twice)) == [
        'file.yaml:2:14: key "c" stands twice in one map; the first stands on line 2',
        'file.yaml:3:1: key "a" stands twice in one map; the first stands on line 1',
        'file.yaml:5:1: key "a" stands twice in one map; the first stands on line 1',
        'file.yaml:7:12: key "e" stands twice in one map; the first stands on line 7',
    ]
    assert [node.mark.line for node in (documents[0].at(("a",)),) if node is not None and node.mark] == [5]


def test_depth() -> None:
    assert load("[" * limits.DOCUMENT_DEPTH + "]" * limits.DOCUMENT_DEPTH).value is not None
    with pytest.raises(InputError, match=r"file.yaml:1:65: nested deeper than 64 levels"):
        load("[" * 100_000)
    by_alias = "".join(f"b{i}: &b{i} [[[[[[[[[[*b{i - 1}]]]]]]]]]]\n" for i in range(1, 8))
    with pytest.raises(InputError, match=r"file.yaml:8:\d+: nested deeper than 64 levels"):
        load("b0: &b0 1\n" + by_alias)


def test_alias_bombs_cost_nothing() -> None:
    bomb = "a: &b0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 20))
    start = time.perf_counter()
    with pytest.raises(InputError, match="more than 200000 values once its aliases are expanded"):
        load(bomb)
    assert time.perf_counter() - start < 1


def test_size_and_count() -> None:
    with pytest.raises(InputError, match="file is larger than 4 MiB"):
        load("#" * (limits.FILE_BYTES + 1))
    with pytest.raises(InputError, match=r"file.yaml:200000:3: more than 200000 values"):
        load("- a\n" * (limits.NODES + 5))


JSON = '{"a": [1, {"b": "x"}]}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('s: |\n  {\n    "a": [1,\n      {"b": "x"}]\n  }\n', Position("file.yaml", 4, 13, 3)),
        ('s: |2-\n    {"a": [1,\n     {"b": "x"}]}\n', Position("file.yaml", 3, 12, 3)),
        ('s: >\n  {"a": [1, {"b": "x"}]}\n', Position("file.yaml", 2, 19, 3)),
        (f"s: '{JSON}'\n", Position("file.yaml", 1, 21, 3)),
        (f"s: {json.dumps(JSON)}\n", Position("file.yaml", 1, 25, 5)),
        ("s: |\n  a:\n  - 1\n  - b: x\n", Position("file.yaml", 4, 8, 1)),
        ('s: "a:\\n- 1\\n- b: x\\n"\n', Position("file.yaml", 1, 19, 1)),
        ('s: >\n  {"a": [1,\n  {"b": "x"}]}\n', Position("file.yaml", 1, 4, 1)),
    ],
)
def test_documents_in_strings(text: str, expected: Position) -> None:
    document = load(text)
    node = document.at(("s", "a", 1, "b"))
    assert node is not None
    assert (node.value, node.mark) == ("x", expected)


@pytest.mark.parametrize("text", ["plain words", "a: b: c", "{", "[1, 2", "", "{a: 1, a: 2}", "- \x01"])
def test_strings_that_hold_no_document(text: str) -> None:
    assert load_embedded(Node(text, None, text=text, tag="str")) is None


def test_copies_do_not_share_what_can_change() -> None:
    document = load("a: &x {b: [1]}\nc: *x\n")
    copy = document.copy()
    copy.value["a"].value["b"].value.append(copy)
    assert document.plain() == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert len(copy.value["c"].value["b"].value) == 1
