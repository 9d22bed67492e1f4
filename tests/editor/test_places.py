"""Places in texts: units, ends of lines, and the keys around a place in a text that is no YAML yet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.editor import outline
from trainyard.editor.text import Text, utf16

BREAKS = ("\n", "\r\n", "\r", "\u2028", "\x85")
TEXTS = st.lists(st.sampled_from(["a", "é", "😀", "\t", *BREAKS])).map("".join)


@pytest.mark.parametrize(
    ("text", "line", "column", "place"),
    [
        ("a: 1\nb: 2\n", 2, 4, (1, 3)),
        ("a: 1\r\nb: 2\r\n", 2, 4, (1, 3)),
        ("a: 1\rb: 2", 2, 4, (1, 3)),
        ("a: 😀é b\n", 1, 7, (0, 7)),
        ("\ufeffa: 1\n", 1, 4, (0, 4)),
        ("a: x\u2028b: 2\nc: 3", 2, 4, (0, 8)),  # the parser ends a line there, the editor does not
        ("a: 1\n", 1, 99, (0, 4)),
        ("a: 1\n", 99, 1, (1, 0)),
        ("a\r\n", 0, 3, (0, 1)),  # no line has this number: the first one
        ("", 1, 1, (0, 0)),
    ],
)
def test_a_findings_place_is_where_the_editor_has_it(text: str, line: int, column: int, place: tuple[int, int]) -> None:
    found = Text(text)

    assert found.place(found.offset(line, column)) == place


@given(TEXTS, st.integers(0, 20), st.integers(0, 20))
def test_any_place_is_in_the_text(text: str, line: int, column: int) -> None:
    found = Text(text)
    offset = found.offset(line, column)
    row, at = found.place(offset)

    assert 0 <= offset <= found.line_end(offset) <= len(text)
    assert 0 <= row < len(found.lines)
    assert 0 <= at <= utf16(found.lines[row]) + 1, "at most between the two characters that end a line"
    assert found.place(found.offset(*found_in(text, offset))) == (row, at)


def found_in(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset as the parser counts them."""
    lines = Text(text[:offset]).text.replace("\r\n", "\n")
    for sign in BREAKS[2:]:
        lines = lines.replace(sign, "\n")
    if text[offset - 1 : offset + 1] == "\r\n":
        lines = lines.removesuffix("\n")
    return lines.count("\n") + 1, len(lines) - lines.rfind("\n")


@pytest.mark.parametrize(
    ("text", "above", "key", "word", "at_value"),
    [
        ("|", (), "", "", False),
        ("ki|", (), "", "ki", False),
        ("spec:\n  |", ("spec",), "", "", False),
        ("spec:\n  # a: comment\n\n  batch:\n    micro: 1\n  ste|", ("spec",), "", "ste", False),
        ("spec:\n  batch:\n    mi|cro: 1", ("spec", "batch"), "micro", "mi", False),
        ("spec:\n  batch:\n    micro: 1|0", ("spec", "batch"), "micro", "1", True),
        ("spec:\n  model:|", ("spec",), "model", "", True),
        ("resources:\n- a\n- b/|", ("resources", "[]"), "", "b/", True),
        ("resources:\n  - |", ("resources", "[]"), "", "", True),
        ("spec:\n- name: a\n  siz|", ("spec", "[]"), "", "siz", False),
        ("spec:\n- name: a\n- - b: c|", ("spec", "[]", "[]"), "b", "c", True),
        ("a:\n  b:\n---\nc:\n  |", ("c",), "", "", False),
        ("\"a\":\n  'b': |", ("a",), "b", "", True),
    ],
)
def test_the_keys_around_a_place(text: str, above: tuple[str, ...], key: str, word: str, at_value: bool) -> None:
    before = text.partition("|")[0]
    row, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    lines = text.replace("|", "").split("\n")

    found = outline.spot(lines, row, column)

    assert (found.above, found.key, found.word, found.at_value) == (above, key, word, at_value)


@given(st.text("ab:- \n#'\"[{\t"), st.integers(0, 9), st.integers(0, 9))
def test_any_text_has_an_outline(text: str, row: int, column: int) -> None:
    lines = text.split("\n")
    found = outline.spot(lines, row, column)

    assert 0 <= found.row <= max(row, 0)
    assert isinstance(outline.keys_beside(lines, row, column), set)
