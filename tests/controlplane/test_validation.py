"""What the API server's functions refuse in process, a real API server refuses too, at the same field."""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import by_day
from tests.controlplane.harness import HOME, units_of
from tests.schemas.test_kubeconform import mutant
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.findings.finding import Severity
from trainyard.lint.pipeline import lint
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.repository.discover import discover
from trainyard.schemas.schema import schema_of
from trainyard.schemas.validation import answers
from trainyard.schemas.violation import validator_of
from trainyard.verify.pods import refusals

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

OWN = (
    "apps",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
)
"""Groups of Kubernetes itself, beside the one without a name."""
TEXTS = (
    "A",
    "a_b",
    "-a",
    "a" * 64,
    "a" * 254,
    "a.b",
    "a/b",
    "/a",
    "..",
    "10.0.0.1",
    "Never",
    "Always",
    "é",
    "true",
    "0",
)
NUMBERS = (-1, 0, 1, 65535, 65536, 2**31 - 1)


TAKEN = "failed to allocate"
"""What the API server says of an address that another object has, or that its range has not."""


@cache
def written() -> list[Json]:
    """Each object of the jobs, and of the manifests that rules are explained with, once."""
    jobs = [file.parent.relative_to(HOME).as_posix() for file in sorted((HOME / "jobs").glob("*/*/job.yaml"))]
    rendered = [item.data for unit in units_of(jobs, HOME).values() for item in unit.objects]
    good = sorted((HOME / "tools/trainyard/rules/good").glob("*.yaml"))
    plain = [data for file in good if file.name != "folder.yaml" for data in yaml.safe_load_all(file.read_text())]
    known = [data for data in (*rendered, *plain) if schema_of(HOME / "schemas", data["apiVersion"], data["kind"])]
    return [json.loads(text) for text in dict.fromkeys(json.dumps(data, sort_keys=True) for data in known)]


def is_own(data: Json) -> bool:
    group, _, version = data["apiVersion"].rpartition("/")
    return group in OWN or (not group and bool(version))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running() as plane:
        client = plane.client()
        load_definitions(client, {(data["apiVersion"], data["kind"]) for data in written()})
        namespaces = {data["metadata"].get("namespace", "default") for data in written()}
        for name in sorted(namespaces - {"default"}):
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        accounts = {data["metadata"]["name"] for data in written() if data["kind"] == "ServiceAccount"}
        for name in sorted(namespaces):
            for account in ("default", *sorted(accounts)):
                metadata = {"name": account, "namespace": name}
                client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        yield client
        client.close()


def changed(data: Json, chance: random.Random) -> Json:
    """The object with a field changed, taken out or added, or with another text or number that has the right type."""
    if chance.random() < 0.4:
        return mutant(data, chance)
    made = copy.deepcopy(data)
    holders = list(_leaves(made))
    holder, step = chance.choice(holders)
    holder[step] = chance.choice(TEXTS if isinstance(holder[step], str) else NUMBERS)
    return made


def _leaves(tree: Any) -> Iterator[tuple[Any, Any]]:
    for step, below in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if type(below) in (str, int) and step not in ("apiVersion", "kind", "namespace"):
            yield tree, step
        yield from _leaves(below)


def fits_its_schema(data: Json) -> bool:
    file = schema_of(HOME / "schemas", data["apiVersion"], data["kind"])
    return file is not None and "null" not in json.dumps(data) and bool(validator_of(file)[0].is_valid(data))


def causes_of_server(client: Client, data: Json) -> set[tuple[str, str]]:
    """Field and kind of each cause for which the API server refuses an object; no names where it cannot read it."""
    if "/namespaces/" in client.path({**data, "metadata": {"name": "a", "namespace": "a"}}):
        data = {**data, "metadata": {"namespace": "default", **data["metadata"]}}
    try:
        client.create(data, dry_run=True)
    except Refused as refused:
        if "already exists" in str(refused):
            return set()
        causes = [cause for cause in refused.causes if TAKEN not in cause["message"]]
        if causes or not refused.causes:
            return {(cause.get("field", ""), cause["reason"]) for cause in causes} or {("", "")}
    return set()


def test_the_servers_functions_refuse_in_process_what_the_server_refuses(client: Client) -> None:
    """Of Kubernetes' own kinds, whose schema finds nothing wrong: the same fields, for the same kind of cause."""
    chance = random.Random(f"validation {by_day.seed()}")
    own = [data for data in written() if is_own(data)]
    made = [changed(data, chance) for data in own for _ in range(12)]
    asked = [data for data in made if fits_its_schema(data)]

    here = [{(cause["field"], cause["type"]) for cause in causes} for causes in answers(asked)]
    there = [causes_of_server(client, data) for data in asked]

    differing = [(data, ours, theirs) for data, ours, theirs in zip(asked, here, there, strict=True) if ours != theirs]
    assert differing == []
    assert sum(map(bool, there)) > 50
    assert not any(answers(own))


def refused_by_server(client: Client, data: Json) -> str:
    """Why the API server refuses an object, or the pods that its controller would make of it."""
    try:
        client.create(data, dry_run=True)
    except Refused as refused:
        return "" if "already exists" in str(refused) or TAKEN in str(refused) else str(refused)
    return next((problem.message for problem in refusals(client, Unit("x", False, (Object.of(data, 0),)))), "")


MISSED_AT_MOST = 0.02
"""Of what the API server refuses: in custom resources, integers beyond 32 bits, items twice, labels made of names."""


@pytest.mark.claim("values-are-the-servers")
def test_the_linter_refuses_what_the_server_refuses(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random("refused")
    by_kind: dict[str, list[Json]] = {}
    for data in written():
        by_kind.setdefault(data["kind"], []).append(data)
    made = [changed(chance.choice(by_kind[kind]), chance) for kind in sorted(by_kind) for _ in range(20)]
    names = [f"{number:04}.json" for number in range(len(made))]
    for name, data in zip(names, made, strict=True):
        (tmp_path / name).write_text(json.dumps(data))

    found = lint(tmp_path, discover(names, tmp_path, tmp_path), use_cache=False).findings
    told = {name for finding in found if finding.severity >= Severity.ERROR for name in finding.jobs}
    by_value = {name for finding in found if finding.rule == "SCH011" for name in finding.jobs}
    why = {name: refused_by_server(client, data) for name, data in zip(names, made, strict=True)}

    table = Counter((bool(why[name]), name in told) for name in names)
    missed = [
        (json.dumps(data), why[name]) for name, data in zip(names, made, strict=True) if why[name] and name not in told
    ]
    refused = table[True, True] + table[True, False]
    with capsys.disabled():
        print(f"\nrefused by the API server: {refused} of {len(names)}; missed by lint-jobs: {len(missed)}")
    assert refused > 100
    assert len(missed) <= MISSED_AT_MOST * refused, missed
    assert sorted(name for name in by_value if not why[name]) == []
