"""The pages of rules: complete, and listed in docs/rules/."""

from pathlib import Path

import pytest

from trainyard.docs.pages import catalogue, first_line
from trainyard.rules.index import all_rules
from trainyard.rules.registry import Rule

LIST = Path(__file__).resolve().parents[2] / "docs" / "rules" / "README.md"


def test_the_list_is_what_update_docs_writes() -> None:
    assert LIST.read_text() == catalogue(all_rules())


def test_git_holds_the_list_alone() -> None:
    assert [file.name for file in LIST.parent.iterdir()] == [LIST.name]


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_every_rule_says_what_is_bad_and_what_is_good(rule: Rule) -> None:
    assert first_line(rule).endswith(".")
    for heading in ("Bad:", "Good:"):
        assert heading in rule.page, f"{rule.id} has no {heading}"
