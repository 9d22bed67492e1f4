"""schemas/job-folder.yaml holds together, and what is written from it is up to date."""

import json
import re
from pathlib import Path

import pytest
import yaml

from trainyard.allowed.statement import FILE, Fields, parsed, statement
from trainyard.allowed.statement_limits import LIMITS
from trainyard.allowed.team import SCHEMA, Context, spec_of
from trainyard.allowed.walk import refusals
from trainyard.policy.files import ALLOWED, allowed
from trainyard.rules.index import all_rules

HOME = Path(__file__).resolve().parents[2]
TEAM = json.loads(SCHEMA.read_text())["properties"]["spec"]["properties"]


def test_what_is_written_from_it_is_up_to_date() -> None:
    assert {file: file.read_text() for file in allowed()} == allowed(), "run tools/update-docs"


def test_every_limit_has_words_and_both_sides_know_it() -> None:
    said = statement().limits

    assert said.keys() == LIMITS.keys()
    assert {words.more for words in said.values()} - {""} <= TEAM.keys()


def test_every_rule_exists_and_speaks_of_something_that_has_a_name() -> None:
    said = statement()
    named = {each.name for each in (*said.kinds.values(), *said.definitions.values())}

    assert set(said.rules.values()) <= all_rules().keys()
    assert {name.partition(".")[0] for name in said.rules} <= named


@pytest.mark.claim("page-of-the-team")
def test_the_page_says_all_that_a_team_may_have() -> None:
    table = re.findall(r"^\| (`.*?) \|", ALLOWED.read_text(), re.MULTILINE)
    told = {name for row in table for name in re.findall(r"`(\w+)`", row)}

    assert TEAM.keys() - told == {"cluster"}
    assert "`cluster` is written by the wiring" in ALLOWED.read_text()


@pytest.mark.parametrize("cluster", sorted(path.name for path in (HOME / "clusters").iterdir()))
def test_every_team_has_the_file_that_findings_name(cluster: str) -> None:
    for team in (HOME / "clusters" / cluster / "platform").glob("*/resource-quota.yaml"):
        context = Context(namespace=team.parent.name, cluster=cluster)
        assert yaml.safe_load((HOME / context.file).read_text())["kind"] == "Team"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "dnsPolicy: [ClusterFirst, ClusterFirstWithHostNet]",
            "dnsPolicy: ClusterFirst",
            "neither `any` nor a name behind a =",
        ),
        ("spec!: =Pod\n", "spec!: =Pods\n", "Pods"),
        ('"=": queue', '"=": queues', "queues"),
    ],
)
def test_a_slip_in_it_is_told(old: str, new: str, error: str) -> None:
    text = FILE.read_text()
    assert text.count(old) == 1

    with pytest.raises((KeyError, ValueError), match=error):
        parsed(yaml.safe_load(text.replace(old, new)))


def test_a_team_with_fields_of_another_type_stops_nobody() -> None:
    written = dict.fromkeys(TEAM, 7)
    pods = {"spec": {"serviceAccountName": "x", "tolerations": [{}], "containers": [{"image": "x"}]}}
    template = statement().definitions["PodTemplate"]
    assert isinstance(template, Fields)

    assert list(refusals(template, pods, Context(run="x", team=spec_of(written))))
