"""Whom a binding means, as kubernetes' pkg/registry/rbac/validation/rule.go reads its subjects."""

import pytest

from tests.rules.judging import judge

JOB = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: sweep, namespace: bench}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sweep, namespace: bench}
spec: {template: {spec: {serviceAccountName: sweep, restartPolicy: Never, containers: [{name: sweep, image: a:1}]}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: sweep%s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: sweep%s}]
"""
ROLE_BINDING = ("RoleBinding", ", namespace: bench")
OTHERS = "RoleBinding sweep means ServiceAccount sweep of namespace default, but the job's is in bench"
NOBODYS = "ClusterRoleBinding sweep names ServiceAccount sweep without a namespace, which the API server refuses"


@pytest.mark.parametrize(
    ("binding", "named", "said"),
    [
        (ROLE_BINDING, "", []),
        (ROLE_BINDING, ", namespace: bench", []),
        (ROLE_BINDING, ", namespace: default", [f"error: {OTHERS} @ RoleBinding/sweep subjects[0].namespace"]),
        (("ClusterRoleBinding", ""), ", namespace: bench", []),
        (("ClusterRoleBinding", ""), ", namespace: default", []),
        (
            ("ClusterRoleBinding", ""),
            "",
            [f"error: {NOBODYS} @ ClusterRoleBinding/sweep subjects[0].namespace"],
        ),
    ],
)
def test_a_subject_without_a_namespace_is_of_the_bindings(
    binding: tuple[str, str], named: str, said: list[str]
) -> None:
    assert judge("RBA003", JOB % (*binding, named)) == said


@pytest.mark.parametrize("named", ["", ", namespace: bench"])
def test_rights_of_a_subject_without_a_namespace_are_the_jobs(named: str) -> None:
    assert len(judge("RBA001", JOB % (*ROLE_BINDING, named))) == 1
