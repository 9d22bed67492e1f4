"""Former ids of rules: each leads to its rule, and none is used again."""

import re

import pytest

from trainyard.docs.pages import catalogue, documents, page
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.gitops.exempt import Exemption, exempted
from trainyard.report import Report
from trainyard.report.sarif import log
from trainyard.rules.aliases import ALIASES, former, present
from trainyard.rules.index import all_rules
from trainyard.rules.registry import declare


@pytest.mark.claim("former-ids-still-lead")
@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_leads_to_a_rule_and_is_none(alias: str) -> None:
    rules = all_rules()

    assert re.fullmatch("[A-Z]{3}[0-9]{3}", alias)
    assert alias not in rules
    assert present(alias) in rules
    assert alias in former(present(alias))


def test_an_id_without_alias_stays() -> None:
    assert (present("NCL003"), former("NCL003")) == ("NCL003", ())


def test_no_rule_takes_an_alias_for_its_id() -> None:
    with pytest.raises(ValueError, match="rule id NCL073 was that of ENV031"):
        declare("NCL073", "another-rule", Severity.INFO, "What it says.")


def test_owners_of_a_cluster_silence_a_rule_by_its_former_id() -> None:
    job, at = "jobs/vision/vit-l", Position("clusters/lab-west/suppressions.yaml", 5, 9)
    reason = "the pods share idle cores"
    place = Place("Job/vision/vit-l", "spec", Position(f"{job}/job.yaml", 3, 1))
    finding = Finding("ENV031", "a-name", Severity.ERROR, "a message", place, jobs=(job,))

    kept, silenced = exempted([finding], [Exemption("NCL073", job, reason, at)], all_rules(), {job})

    assert (kept, [each.finding for each in silenced]) == ([], [finding])
    (unused,), _ = exempted([], [Exemption("NCL073", job, reason, at)], all_rules(), {job})
    assert unused.message == f"suppression of NCL073 silences nothing: ENV031 finds nothing in {job}"


def test_the_list_and_the_site_have_a_place_for_each_alias() -> None:
    listed, pages = catalogue(all_rules()), documents()

    for alias, now in ALIASES.items():
        assert f'<a id="{alias}"></a><a id="{now}"></a>{now} |' in listed
        assert f"[{now}]({now}.md)" in pages[f"{alias}.md"]
        assert f"Its id was {alias} before" in pages[f"{now}.md"]
        assert f"Its id was {alias} before" in page(all_rules()[now])


def test_sarif_names_the_ids_that_a_rule_had() -> None:
    listed = log(Report((), ()), all_rules())["runs"][0]["tool"]["driver"]["rules"]

    assert {rule["id"]: rule["deprecatedIds"] for rule in listed if "deprecatedIds" in rule} == {
        now: list(former(now)) for now in ALIASES.values()
    }
