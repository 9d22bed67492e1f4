"""The pages of rules: complete, and as docs/rules/ has them."""

from pathlib import Path

import pytest

from trainyard.docs.pages import documents, first_line
from trainyard.rules.index import all_rules
from trainyard.rules.registry import Rule

PAGES = Path(__file__).resolve().parents[2] / "docs" / "rules"


@pytest.mark.claim("every-rule-has-a-page")
def test_docs_are_what_update_docs_writes() -> None:
    assert {file.name: file.read_text() for file in PAGES.glob("*.md")} == documents()


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_every_rule_says_what_is_bad_and_what_is_good(rule: Rule) -> None:
    assert first_line(rule).endswith(".")
    for heading in ("Bad:", "Good:"):
        assert heading in rule.page, f"{rule.id} has no {heading}"
