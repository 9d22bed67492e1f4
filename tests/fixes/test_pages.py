"""Every rule that knows a fix is tried on its own bad examples: the finding goes, nothing comes, comments stay."""

import pytest

from tests.fixes.pages import RULES, Page, sign
from trainyard.findings.finding import Fix
from trainyard.rules.examples import Example, examples
from trainyard.rules.registry import Problem, Rule

FIXING = [rule for rule in RULES.values() if rule.fix != "none" and not rule.declared]
CASES = [
    (rule, example)
    for rule in RULES.values()
    if not rule.declared
    for example in examples(rule.page)
    if example.heading == "Bad"
]


ABOVE = ("", r" *- ", r"\S")
"""Where comments stand: above each line, above items of lists, above the outermost keys."""


def _fixed(rule: Rule, example: Example, number: int) -> tuple[Page, Problem, Fix] | None:
    """The page, one problem of a rule, and its fix. A fix that would take a comment along gets a page with fewer."""
    for above in ABOVE:
        page = Page.of(example, above)
        problem = page.problems(rule)[number]
        if problem.fix is None:
            return None
        fix = page.fix(problem)
        if "a comment stands in what would go" not in fix.refused:
            return page, problem, fix
    raise AssertionError(fix.refused)


def _held(rule: Rule, example: Example, number: int) -> str:
    """The kind of the fix that a rule proposes, held to what fixes promise; empty where it proposes none."""
    found = _fixed(rule, example, number)
    if found is None:
        return ""
    page, problem, fix = found
    assert not fix.refused
    assert fix.says
    after = page.fixed(fix)
    assert after.comments == page.comments
    mine = sign(rule, problem)
    before, left = (sum(sign(rule, each) == mine for each in here.problems(rule)) for here in (page, after))
    assert left < before, after.text
    was, now = page.findings(), after.findings()
    new = [each for each, times in now.items() if times > was[each]]
    assert not new, after.text
    return "safe" if fix.safe else "unsafe"


@pytest.mark.parametrize(("rule", "example"), CASES, ids=[f"{rule.id}-{i}" for i, (rule, _) in enumerate(CASES)])
def test_a_fix_puts_its_finding_right_and_nothing_wrong(rule: Rule, example: Example) -> None:
    number = len(Page.of(example).problems(rule))

    kinds = {_held(rule, example, each) for each in range(number)} - {""}

    assert kinds <= {"safe": {"safe", "unsafe"}, "unsafe": {"unsafe"}, "none": set()}[rule.fix]


@pytest.mark.parametrize("rule", FIXING, ids=[rule.id for rule in FIXING])
def test_the_page_says_how_far_its_fixes_go(rule: Rule) -> None:
    kinds = {
        "safe" if problem.fix.safe else "unsafe"
        for example in examples(rule.page)
        if example.heading == "Bad"
        for problem in Page.of(example).problems(rule)
        if problem.fix is not None
    }

    assert rule.fix == ("safe" if "safe" in kinds else "unsafe" if kinds else "none")
