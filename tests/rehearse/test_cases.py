"""What only shows at run time: each case fails the rehearsal with its cause named, and its good half passes.

The first line of a manifest says what it comes to, `# expect: RHS003 words of the finding` or nothing for a good one;
`# chaos: EVENT` and `# program: NAME=FILE` add to the command line.
"""

import re
from pathlib import Path

import pytest

from tests.rehearse.rehearsing import rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
CASES = sorted((Path(__file__).parent / "cases").glob("*/*.yaml"))
_LINE = re.compile(r"# (?P<what>expect|chaos|program): (?P<value>.+)")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_a_case_is_told_by_its_cause(case: Path) -> None:
    asked = [(found["what"], found["value"]) for found in map(_LINE.match, case.read_text().splitlines()) if found]
    options = [word for what, value in asked if what != "expect" for word in (f"--{what}", value)]

    rehearsed = rehearse(case, "--once", "--patience", "10", *options)

    expected = next((value for what, value in asked if what == "expect"), "")
    if case.stem == "good":
        assert rehearsed.code == 0, said(rehearsed)
        return
    rule, _, words = expected.partition(" ")
    assert rehearsed.code == 1, said(rehearsed)
    assert any(told.startswith(rule) and words in told for told in rehearsed.findings), said(rehearsed)
