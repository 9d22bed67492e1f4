"""Each exported policy on a real API server: the verdict of its rule about the examples of the pages, and every job.

Those that ask what a namespace's Team may have are tests/attacks.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import yaml

from tests.controlplane.harness import HOME, unit_of
from tests.controlplane.test_jobs import jobs
from trainyard import policy as exported
from trainyard.controlplane import Client, Refused, running
from trainyard.objects.unit import Unit
from trainyard.policy.files import stream
from trainyard.policy.kinds import Kind
from trainyard.policy.model import TEAM_LABEL, Policy
from trainyard.rules.examples import Example, examples
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Rule
from trainyard.workload.of_unit import workloads

pytestmark = pytest.mark.controlplane

TEAM, ELSEWHERE = "research", "elsewhere"
RULES = all_rules()
POLICIES = tuple(each for each in exported.POLICIES if not (each.with_team or each.of_accounts))
CASES = [(policy, example) for policy in POLICIES for example in examples(RULES[policy.rule].page)]
KINDS = {(kind.group, kind.version, kind.name): kind for policy in POLICIES for kind in policy.kinds}
OF_JOB_FOLDERS = ("SEC002",)
"""Rules that leave plain manifests alone. In a team's namespace everything is taken for a job folder's."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the server says of an object that is created."""

    policies: frozenset[str]
    """Those that refused it or warned of it."""
    refused: str
    """The server's words; empty where it took the object."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with the policies, a team's namespace and another one. Its custom resources take any field."""
    with running() as plane:
        client = plane.client()
        for kind in KINDS.values():
            if "." in kind.group:
                client.create(definition(kind))
                client.until(kind.name, partial(client.serves, f"{kind.group}/{kind.version}", kind.name))
        for name, labels in ((TEAM, {TEAM_LABEL: TEAM}), (ELSEWHERE, {})):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        named = {policy.name for policy in POLICIES}
        for document in yaml.safe_load_all(stream()):
            if document["metadata"]["name"] in named:
                client.apply(document)
        for policy in POLICIES:
            client.until(f"{policy.name} that is in force", partial(is_in_force, client, policy))
        yield client


def definition(kind: Kind) -> Json:
    """One of a custom resource that takes any field, so that nobody but the policies refuses anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
            "versions": [
                {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }


def is_in_force(client: Client, policy: Policy) -> bool:
    """Whether the bad example of the rule's page is refused or warned of by now."""
    return any(policy.name in each.policies for each in verdicts(client, bad_of(policy.rule)))


def bad_of(rule: str) -> Unit:
    return next(example.unit for example in examples(RULES[rule].page) if example.heading == "Bad")


def verdicts(client: Client, unit: Unit, namespace: str = TEAM) -> list[Verdict]:
    """What the server says of each object of a unit that some policy judges."""
    found = []
    for item in unit.objects:
        group, _, version = item.api_version.rpartition("/")
        if (group, version, item.kind) in KINDS:
            found.append(verdict(client, copy.deepcopy(item.data), namespace))
    return found


def verdict(client: Client, data: Json, namespace: str = TEAM) -> Verdict:
    data["metadata"]["namespace"] = namespace
    data["metadata"].pop("ownerReferences", None)
    try:
        answer = client.create(data, dry_run=True)
    except Refused as refused:
        return Verdict(_named(str(refused)), str(refused))
    return Verdict(_named(*answer.warnings), "")


def _named(*texts: str) -> frozenset[str]:
    return frozenset(policy.name for policy in POLICIES if any(f"'{policy.name}'" in text for text in texts))


def fires(rule: Rule, unit: Unit) -> bool:
    return any(True for _ in problems(rule, unit, tuple(workloads(unit))))


@pytest.mark.claim("policy-says-its-rule")
@pytest.mark.parametrize(
    ("policy", "example"), CASES, ids=[f"{policy.rule}-{example.heading}" for policy, example in CASES]
)
def test_a_policy_says_what_its_rule_says(client: Client, policy: Policy, example: Example) -> None:
    unit = example.unit

    found = verdicts(client, unit)

    assert any(policy.name in each.policies for each in found) == fires(RULES[policy.rule], unit), found
    assert found
    assert not [each.refused for each in found if each.refused and not each.policies]


@pytest.mark.claim("policy-says-its-rule")
def test_no_policy_says_more_than_its_rule(client: Client) -> None:
    """Over the examples of every page: what a policy finds, its rule finds too."""
    known: dict[str, frozenset[str]] = {}
    more = []
    for rule in RULES.values():
        for example in examples(rule.page) if not rule.declared else ():
            unit = example.unit
            for item in unit.objects:
                text = json.dumps(item.data)
                if text not in known:
                    alone = verdicts(client, Unit(unit.name, unit.is_job, (item,), (), None))
                    known[text] = frozenset().union(*(each.policies for each in alone))
                for policy in POLICIES:
                    leaves_alone = policy.rule in OF_JOB_FOLDERS and not unit.is_job
                    if policy.name in known[text] and not leaves_alone and not fires(RULES[policy.rule], unit):
                        more.append((policy.name, rule.id, example.heading))
    assert more == []


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.rule)
def test_other_namespaces_are_left_alone(client: Client, policy: Policy) -> None:
    assert not any(each.policies for each in verdicts(client, bad_of(policy.rule), ELSEWHERE))


@pytest.mark.claim("policy-says-its-rule")
@pytest.mark.parametrize("job", jobs())
def test_every_job_of_the_repository_passes(client: Client, job: str) -> None:
    found = verdicts(client, unit_of(job))

    assert found
    assert [each for each in found if each.policies or each.refused] == []


def test_what_a_controller_makes_was_judged_with_its_owner(client: Client) -> None:
    made = next(copy.deepcopy(item.data) for item in bad_of("GIT001").objects if item.kind == "Job")
    made["metadata"] |= {"namespace": TEAM, "ownerReferences": [_owner()]}

    assert client.create(made, dry_run=True).body["spec"]["ttlSecondsAfterFinished"]


def _owner() -> Json:
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "owner", "uid": "0", "controller": True}


@pytest.mark.claim("every-cluster-has-the-policies")
def test_every_cluster_applies_them() -> None:
    wanted = {(item["kind"], item["metadata"]["name"]) for item in yaml.safe_load_all(stream())}
    for cluster in sorted(path.name for path in (HOME / "clusters").iterdir()):
        there = {(item.kind, item.name) for item in unit_of(f"clusters/{cluster}/platform").objects}
        assert wanted <= there
