"""Every promise holds for every input that the fuzzers found, for what they grew from, and for random ones."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
INPUTS = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
WORDS = """$(JOB) ${A:-b} &a *a <<: - : { } [ ] ' " | # 1e9 Gi ::error:: ##[error] </script> ](javascript:x) ~ !"""
SPACES = ("\n", "  ", "- ", ": ", "\x1b[31m", "\u202e", "\x85", "\ufeff", "\x00")
SIGNS = st.sampled_from((*WORDS.split(), *SPACES))
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.one_of(SIGNS, st.text(max_size=4)), max_size=30).map("".join))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_stays_mended(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_inputs() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"manifest"}))
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(text=TEXTS)
def test_random_texts_keep_the_promise(target: str, text: str) -> None:
    TARGETS[target](text.encode())
