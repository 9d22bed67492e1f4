"""Values as text: whatever they are and wherever they stand, they are read again as what they were."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainyard.fixes import writing
from trainyard.yaml.nodes import load_documents

SIGNS = st.sampled_from(
    ["\x85", "\u2028", "\u2029", "\ufeff", "\x7f", "\x9b", "\u202e", "\n", "\t", "'", '"', "\\", "🦙"]
)
TEXTS = st.lists(SIGNS | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=5).map("".join)
NUMBERS = st.integers(-(2**63), 2**64 - 1)
"""What go-yaml holds as an integer: it reads others as floats, so no manifest that a fix was made from has them."""
VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans() | st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS.filter(bool), below, max_size=3),
    max_leaves=5,
)


def read(text: str) -> Any:
    (document,) = load_documents(text, "written.yaml")
    return document.plain()


@given(TEXTS, st.sampled_from(["", "'", '"']))
def test_a_text_is_read_as_it_was(value: str, style: str) -> None:
    assert read(f"a: {writing.scalar(value, style)}\nb: 1\n") == {"a": value, "b": 1}
    assert read(f"[{writing.scalar(value, style, in_flow=True)}]") == [value]


@given(st.dictionaries(TEXTS.filter(bool), VALUES, min_size=1, max_size=3), st.sampled_from(["", '"']))
def test_any_value_is_read_as_it_was(value: dict[str, Any], style: str) -> None:
    assert read("\n".join(writing.block(value)) + "\n") == value
    assert read(writing.flow(value, style)) == value
