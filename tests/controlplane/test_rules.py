"""Validation rules of custom resources: what the API server refuses, the linter refuses at the same field."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.schemas.conftest import HOME
from tests.schemas.rules import Case, cases
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.schemas.expressions import broken_rules
from trainyard.schemas.schema import schema_of
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
        objects = [parameter.values[0].broken for parameter in ALL]
        load_definitions(client, [(data["apiVersion"], data["kind"]) for data in objects])
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
    file = schema_of(HOME / "schemas", data["apiVersion"], data["kind"])
    assert file is not None
    broken = broken_rules(json.loads(file.read_bytes()), data, is_final=True)
    return {(format_path(data, each.path), each.message) for each in broken}


@pytest.mark.claim("rules-are-the-servers")
@pytest.mark.parametrize("case", ALL)
def test_the_linter_refuses_what_the_server_refuses(client: Client, case: Case) -> None:
    assert refused_by_server(client, case.broken) == refused_here(case.broken) != set()
    assert refused_by_server(client, case.kept) == refused_here(case.kept) == set()
