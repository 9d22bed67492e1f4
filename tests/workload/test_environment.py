"""The kubelet's order and expansion of variables."""

import pytest

from tests.workload.manifests import where, workload
from trainyard.workload.environment import unresolved
from trainyard.workload.model import EnvVar

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: job, namespace: team}
spec:
  template:
    metadata: {labels: {tier: gold}}
    spec:
      containers:
      - {name: trainer, image: trainer, command: [train], %s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: team}
data: {A: from one, B: from one, "not/a/name": x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, namespace: team}
data: {A: from two}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere, namespace: other}
data: {A: from another namespace}
---
apiVersion: v1
kind: Secret
metadata: {name: hub, namespace: team}
stringData: {TOKEN: hf_abc}
"""
BOTH = "envFrom: [{configMapRef: {name: one}}, {configMapRef: {name: two}}]"


def environment(fields: str) -> dict[str, EnvVar]:
    return dict(workload(JOB % fields).pod_sets[0].containers[0].env)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        (BOTH, {"A": "from two", "B": "from one"}),
        ("envFrom: [{configMapRef: {name: two}}, {configMapRef: {name: one}}]", {"A": "from one"}),
        ("envFrom: [{prefix: X_, configMapRef: {name: two}}]", {"X_A": "from two", "A": None}),
        ("env: [{name: A, value: own}], " + BOTH, {"A": "own"}),
        ("env: [{name: A, value: first}, {name: A, value: last}]", {"A": "last"}),
        ("env: [{name: A, value: x}, {name: B, value: $(A)/y}]", {"B": "x/y"}),
        ("env: [{name: B, value: $(A)/y}, {name: A, value: x}]", {"B": "$(A)/y"}),
        ("env: [{name: A, value: x}, {name: B, value: $$(A)}]", {"B": "$(A)"}),
        ("env: [{name: A, value: x}, {name: B, value: $$$(A)$}]", {"B": "$x$"}),
        ("env: [{name: A, value: x}, {name: B, value: '$(A $(A)'}]", {"B": "$(A $(A)"}),
        ("env: [{name: A, value: x}, {name: A, value: $(A)y}]", {"A": "xy"}),
        ("env: [{name: A, value: $(KUBERNETES_SERVICE_HOST)}]", {"A": None}),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['tier']\"}}}]", {"A": "gold"}),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]", {"A": "team"}),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: B, value: $(A)}]", {"B": None}),
        ("env: [{name: A}, {name: B, value: null}]", {"A": "", "B": ""}),
        ("env: [{name: A, value: 1}]", {"A": None}),
        ("envFrom: [{secretRef: {name: hub}}]", {"TOKEN": None}),
    ],
)
def test_final_values(fields: str, values: dict[str, str | None]) -> None:
    found = environment(fields)
    assert {name: found[name].value if name in found else None for name in values} == values


def test_a_source_that_is_not_rendered_may_hold_any_variable() -> None:
    found = environment("envFrom: [{configMapRef: {name: absent}}], env: [{name: B, value: $(A)}]")
    assert found["B"].value is None


def test_spots_point_at_the_text() -> None:
    found = environment(BOTH)
    assert where(found["A"].spot) == "ConfigMap/two data.A"
    assert where(found["B"].spot) == "ConfigMap/one data.B"


def test_unresolved_references_are_listed() -> None:
    found = unresolved(
        workload(
            JOB
            % """env: [
          {name: A, valueFrom: {configMapKeyRef: {name: one, key: absent}}},
          {name: B, valueFrom: {configMapKeyRef: {name: one, key: A}}},
          {name: C, valueFrom: {secretKeyRef: {name: nowhere, key: k, optional: true}}},
          {name: D, valueFrom: {secretKeyRef: {name: hub, key: TOKEN}}}],
          envFrom: [{configMapRef: {name: elsewhere}}]"""
        )
    )
    assert [(each.kind, each.name, each.key, each.optional, where(each.spot)) for each in found] == [
        ("ConfigMap", "elsewhere", None, False, f"Job/job {CONTAINER}.envFrom[0].configMapRef.name"),
        ("ConfigMap", "one", "absent", False, f"Job/job {CONTAINER}.env[A].valueFrom.configMapKeyRef.key"),
        ("Secret", "nowhere", "k", True, f"Job/job {CONTAINER}.env[C].valueFrom.secretKeyRef.key"),
    ]


CONTAINER = "spec.template.spec.containers[0]"


def test_variables_that_name_one_another_do_not_grow_without_end() -> None:
    items = ["{name: A0, value: xxxxxxxxxxxxxxxx}"]
    items += [f"{{name: A{n}, value: $(A{n - 1})$(A{n - 1})}}" for n in range(1, 60)]
    assert environment(f"env: [{', '.join(items)}]")["A59"].value is None
