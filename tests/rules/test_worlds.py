"""Whether several pods come to one world, as the linter reads their launch lines. tests/trainer asks the launchers."""

import pytest

from tests.worlds import PAIRS, SAID, Pair
from trainyard.findings.finding import Severity
from trainyard.rules.index import all_rules

WORLDS = {rule for rules in SAID.values() for rule in rules} | {"RDV001", "LCH001"}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_what_comes_of_two_pods_is_said(pair: Pair) -> None:
    rules = [rule for rule in all_rules().values() if rule.id in WORLDS and rule.severity is Severity.ERROR]

    assert {rule.id for rule in rules if list(rule.check(pair.workload()))} == SAID[pair.comes_to]
