"""A rule is found from its id alone."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from trainyard import rules
from trainyard.rules import FAMILIES
from trainyard.rules.index import STAGES, all_rules
from trainyard.rules.registry import Rule

PACKAGE = Path(rules.__file__).parent
AROUND = {"__init__", "aliases", "common", "examples", "good", "index", "registry"}
"""What lies in the package beside the families."""


@pytest.mark.claim("found-by-its-id")
@pytest.mark.parametrize("rule", [rule for rule in all_rules().values() if not rule.declared], ids=lambda rule: rule.id)
def test_a_rule_lies_in_its_family(rule: Rule) -> None:
    family = f"{rules.__name__}.{FAMILIES[rule.id[:3]]}"

    assert f"{rule.check.__module__}.".startswith(f"{family}.")


def test_nothing_else_lies_beside_the_families() -> None:
    holding = {file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*.*") if "__pycache__" not in file.parts}
    found = {Path(name).stem for name in holding}

    assert found == {*FAMILIES.values(), *AROUND}
    assert len(set(FAMILIES.values())) == len(FAMILIES), "two families share a folder"


def test_no_module_with_rules_is_imported_by_another_family() -> None:
    with_rules = {rule.check.__module__ for rule in all_rules().values() if not rule.declared}
    found = {
        (file.relative_to(PACKAGE).as_posix(), imported)
        for file in PACKAGE.rglob("*.py")
        for imported in re.findall(r"^ *from (trainyard\.rules\.[\w.]+) import ", file.read_text(), re.MULTILINE)
        if imported in with_rules and imported.split(".")[2] != file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    }

    assert found == set()


def test_every_family_of_the_table_has_a_rule() -> None:
    assert set(FAMILIES) <= {rule[:3] for rule in all_rules()}


def test_what_a_stage_declares_is_of_the_families_that_the_table_of_stages_names() -> None:
    declared = {rule.id for rule in all_rules().values() if rule.declared and rule.id[:3] != "API"}
    named = {rule for stage, families in STAGES.items() for rule in _declared(stage) if rule.startswith(families)}

    assert named == declared


def test_an_api_server_answers_for_its_own_family() -> None:
    assert {rule.id for rule in all_rules().values() if rule.id.startswith("API")} == _declared("rules.server")


def _declared(module: str) -> set[str]:
    values = vars(import_module(f"trainyard.{module}")).values()
    return {value.id for value in values if isinstance(value, Rule) and value.declared}
