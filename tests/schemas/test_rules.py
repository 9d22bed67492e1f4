"""Validation rules in CEL: each is broken by one object and kept by another like it. The API server judges both too."""

from typing import Any

import pytest

from tests.schemas.rules import Case, cases
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.expressions import Broken, broken_rules, is_usable
from trainyard.schemas.schema import BROKEN_RULE, SchemaProblem, check

ALL = cases()

JobSet = dict[str, Any]


def problems(data: dict[str, Any], *, is_job: bool = False) -> list[SchemaProblem]:
    return check([Unit("jobs/team/one", is_job, (Object.of(data, 0),))])


@pytest.mark.parametrize("case", ALL)
def test_each_rule_is_asked(case: Case) -> None:
    broken = problems(case.broken)
    assert {problem.rule_id for problem in broken} == {BROKEN_RULE.id}
    assert case.message in [problem.message.partition(": ")[2] or problem.message for problem in broken]
    assert problems(case.kept) == []


def test_no_rule_is_left_out() -> None:
    assert len(ALL) == 67


QUEUE: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "research"},
}


def test_an_object_in_which_more_is_wrong_is_asked_no_rule() -> None:
    """What follows from another mistake is not told: the API server asks no rule of such an object either."""
    preemption = {"reclaimWithinCohorts": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
    told = problems({**QUEUE, "spec": {"preemption": preemption}})
    assert [problem.path for problem in told] == [("spec", "preemption", "reclaimWithinCohorts")]


def test_a_field_without_a_value_is_left_out_before_a_rule_reads_it() -> None:
    preemption = {"reclaimWithinCohort": None, "borrowWithinCohort": {"policy": "LowerPriority"}}
    told = problems({**QUEUE, "spec": {"preemption": preemption}})
    assert [problem.rule_id for problem in told] == ["SCH009", "SCH010"]


@pytest.mark.parametrize(("value", "rules"), [("$MANAGER", []), ("<manager>", []), ("manager", [BROKEN_RULE.id])])
def test_a_value_that_is_yet_to_be_filled_in_breaks_nothing(value: str, rules: list[str]) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llama", "labels": {"run": "$RUN"}},
        "spec": {"runtimeRef": {"name": "torch"}, "managedBy": value},
    }
    assert [problem.rule_id for problem in problems(job)] == rules
    assert [problem.rule_id for problem in problems(job, is_job=True)] == [BROKEN_RULE.id]
    job["metadata"] = {"name": value}
    job["spec"].pop("managedBy")  # type: ignore[attr-defined]
    assert [problem.rule_id for problem in problems(job)] == []


def test_a_value_to_fill_in_elsewhere_silences_no_rule() -> None:
    worker = {"name": "worker", "dependsOn": [{"name": "loader", "status": "Complete"}]}
    spec = {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": [{"name": "loader"}, worker]}
    pod = {"spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["--rank=$(RANK)"]}]}}}}
    for each in spec["replicatedJobs"]:
        each["template"] = pod  # type: ignore[index]
    data = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}, "spec": spec}
    assert [(problem.path, problem.message) for problem in problems(data)] == [
        (("spec",), "spec: StartupPolicy and DependsOn APIs are mutually exclusive")
    ]


RULE = {"rule": "self.low <= self.high", "message": "upside down"}


@pytest.mark.parametrize(
    ("more", "path", "message"),
    [
        ({}, ("spec",), "upside down"),
        ({"fieldPath": ".low"}, ("spec", "low"), "upside down"),
        ({"fieldPath": "['low']"}, ("spec", "low"), "upside down"),
        ({"fieldPath": ".between.low"}, ("spec",), "upside down"),
        ({"messageExpression": "string(self.low) + ' is more'"}, ("spec",), "3 is more"),
        ({"messageExpression": "self.missing"}, ("spec",), "upside down"),
        ({"message": ""}, ("spec",), "failed rule: self.low <= self.high"),
    ],
)
def test_where_a_rule_points_and_what_it_says(more: dict[str, str], path: tuple[str, ...], message: str) -> None:
    spec = {"type": "object", "x-kubernetes-validations": [RULE | more]}
    schema = {"properties": {"spec": spec}}
    assert broken_rules(schema, {"spec": {"low": 3, "high": 2}}, is_final=True) == [Broken(path, message)]
    assert broken_rules(schema, {"spec": {"low": 2, "high": 2}}, is_final=True) == []


def test_a_rule_that_asks_for_a_missing_field_is_broken() -> None:
    schema = {"properties": {"spec": {"x-kubernetes-validations": [RULE]}}}
    assert broken_rules(schema, {"spec": {"low": 3}}, is_final=True) == [Broken(("spec",), "upside down")]
    too_large = {"spec": {"low": 3, "high": 10**30}}
    assert broken_rules(schema, too_large, is_final=True) == []


@pytest.mark.parametrize(
    ("rule", "usable"),
    [
        ("self.low <= 3", True),
        ("self.a__dash__b == 3", False),
        ("quantity(self.low).isLessThan(quantity('1Gi'))", False),
        ("self.low <=", False),
    ],
)
def test_what_can_be_judged_here(rule: str, usable: bool) -> None:
    assert is_usable(rule) is usable
