"""Validation rules of custom resources: what the API server refuses, the linter refuses at the same field."""

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.schemas.conftest import HOME
from tests.schemas.rules import Case, cases
from tests.schemas.test_kubeconform import mutant
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.schemas.expressions import broken_rules
from trainyard.schemas.schema import schema_of
from trainyard.schemas.violation import validator_of
from trainyard.yaml.fieldpath import format_path

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

ALL = cases()
BEFORE_THE_MESSAGE = re.compile(
    r'Invalid value: ("[^"]*": |0: )?(no such key: \w+ evaluating rule: )?(?P<message>.*)', re.DOTALL
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running() as plane:
        client = plane.client()
        load_definitions(client, [(case.broken["apiVersion"], case.broken["kind"]) for case in _all()])
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}})
        yield client
        client.close()


def refused_by_server(client: Client, data: Json) -> set[tuple[str, str]]:
    """Field and message of every rule that the API server says an object breaks."""
    data = copy.deepcopy(data)
    if "/namespaces/" in client.path({**data, "metadata": {"name": "a", "namespace": "a"}}):
        data["metadata"].setdefault("namespace", "default")
    try:
        client.create(data, dry_run=True)
    except Refused as refused:
        return {(cause["field"].replace("<nil>", ""), _message(cause)) for cause in refused.causes} or {
            ("", str(refused))
        }
    return set()


def _message(cause: Json) -> str:
    match = BEFORE_THE_MESSAGE.match(cause["message"])
    return match["message"] if match else cause["message"]


def refused_here(data: Json) -> set[tuple[str, str]]:
    broken = broken_rules(validator_of(_schema_of(data))[1], data, is_final=True)
    return {(format_path(data, each.path), each.message) for each in broken}


def _schema_of(data: Json) -> Path:
    file = schema_of(HOME / "schemas", data["apiVersion"], data["kind"])
    assert file is not None
    return file


def _all() -> Iterator[Case]:
    for parameter in ALL:
        yield from parameter.values


@pytest.mark.claim("rules-are-the-servers")
@pytest.mark.parametrize("case", ALL)
def test_the_linter_refuses_what_the_server_refuses(client: Client, case: Case) -> None:
    assert refused_by_server(client, case.broken) == refused_here(case.broken) != set()
    assert refused_by_server(client, case.kept) == refused_here(case.kept) == set()


MUTANTS = 15
"""Of each object that breaks a rule, and of each that keeps it."""

NOT_ASKED = "some validation rules were not checked because the object was invalid"
"""What the API server says of a number that is too large for its field: schemas do not know how large that is."""


def test_the_rules_that_objects_changed_at_random_break_are_the_servers(client: Client) -> None:
    """Where the schema finds nothing wrong, both find the same rules broken."""
    chance = random.Random(12)
    made = (mutant(data, chance) for case in _all() for data in (case.broken, case.kept) for _ in range(MUTANTS))
    asked = broken = 0
    for data in made:
        if "null" in json.dumps(data) or not validator_of(_schema_of(data))[0].is_valid(data):
            continue
        theirs, ours = refused_by_server(client, data), refused_here(data)
        if not any(NOT_ASKED in message for _, message in theirs):
            assert ours == theirs, data
            asked, broken = asked + 1, broken + bool(ours)
    assert asked - 100 > broken > 100
