"""The linter refuses every attack, by the rule that is about it, and no honest neighbour."""

from typing import Any

import pytest

from tests.attacks.attacks import Attack, attacks, repository
from tests.said import said
from trainyard.lint.cli import main
from trainyard.policy.files import ALLOWED

ALL = attacks()
Findings = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What is found of each job folder: all are linted at once."""
    root = tmp_path_factory.mktemp("attacks")
    repository(root)
    document = said(main, "--no-cache", "--format=json", cwd=root).json
    found: Findings = {}
    for each in document["findings"]:
        for job in each["jobs"]:
            found.setdefault(job, []).append(each)
    return found


@pytest.mark.claim("attacks-are-refused")
@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_an_attack_is_refused(findings: Findings, attack: Attack) -> None:
    found = findings.get(attack.folder, [])

    errors = {each["rule"] for each in found if each["severity"] == "error"}
    assert errors >= set(attack.refused), found
    assert {rule for rule in errors if rule.startswith("SEC")} <= set(attack.refused), found


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_a_place_is_told(findings: Findings, attack: Attack) -> None:
    places = {each["file"] for each in findings.get(attack.folder, []) if each["rule"] in attack.refused}

    assert any(place.startswith(attack.place) for place in places), places


@pytest.mark.claim("page-shows-what-is-said")
def test_the_page_shows_what_is_said(findings: Findings) -> None:
    attack = next(each for each in ALL if each.name == "the network of the node")
    (found,) = (each for each in findings[attack.folder] if each["rule"] == "SEC005")

    page = ALLOWED.read_text()
    assert f"error[SEC005] {found['message']}\n  = help: {found['help']}\n" in page


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_a_near_miss_passes(findings: Findings, attack: Attack) -> None:
    found = findings.get(attack.near_folder, [])

    # All of them together ask for more nodes than the cluster has, which RES012 says of all.
    found = [each for each in found if each["severity"] in ("error", "warning") and each["rule"] != "RES012"]
    assert [f"{each['rule']}: {each['message']}" for each in found] == []
