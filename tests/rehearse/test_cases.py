"""What only shows at run time: each case fails the rehearsal with its cause named, and its good half passes.

The first line of a manifest says what it comes to, `# expect: RHS003 words of the finding`, or nothing for a good one;
`# chaos: EVENT` and `# program: NAME=FILE` add to the command line.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.by_day import marks, sample
from tests.rehearse.rehearsing import HOME, Rehearsed, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
_LINE = re.compile(r"# (?P<what>expect|chaos|program): (?P<value>.+)")


def asked(case: Path) -> list[tuple[str, str]]:
    """What the comments at the top of a manifest ask for."""
    return [(found["what"], found["value"]) for found in map(_LINE.match, case.read_text().splitlines()) if found]


def words(case: Path) -> tuple[str, ...]:
    """The command line that rehearses a case."""
    options = [word for what, value in asked(case) if what != "expect" for word in (f"--{what}", value)]
    return (str(case.relative_to(HOME)), "--once", "--patience", "10", *options)


CASES = {case: words(case) for case in sorted((Path(__file__).parent / "cases").glob("*/*.yaml"))}
A_FEW = 2
BY_DAY = sample(sorted({case.parent for case in CASES}), A_FEW)
"""Folders of cases whose halves a pull request waits for: the commit draws them."""


def half(name: str) -> list[Any]:
    """The good or the bad half of each case: the words that rehearse it, and its file."""
    return [
        pytest.param(words, case, id=case.parent.name, marks=marks(case.parent, BY_DAY))
        for case, words in CASES.items()
        if case.stem == name
    ]


@pytest.mark.parametrize(("rehearsed", "case"), half("bad"), indirect=["rehearsed"])
def test_a_bad_case_is_told_by_its_cause(rehearsed: Rehearsed, case: Path) -> None:
    rule, _, cause = next(value for what, value in asked(case) if what == "expect").partition(" ")

    assert rehearsed.code == 1, said(rehearsed)
    assert any(told.startswith(rule) and cause in told for told in rehearsed.findings), said(rehearsed)


@pytest.mark.claim("saves-when-told")
@pytest.mark.parametrize(("rehearsed", "case"), half("good"), indirect=["rehearsed"])
def test_a_good_case_passes(rehearsed: Rehearsed, case: Path) -> None:
    assert "expect" not in dict(asked(case))
    assert rehearsed.code == 0, said(rehearsed)


def test_every_case_has_both_halves() -> None:
    assert {case.parent: {each.stem for each in CASES if each.parent == case.parent} for case in CASES} == {
        case.parent: {"good", "bad"} for case in CASES
    }
