"""Prefixes, suffixes, labels, annotations, images and replicas, as the real kustomize writes them."""

import json
from pathlib import Path as FilePath
from typing import Any

import pytest

from tests.kustomize.replay.bases import CUSTOM, DEPLOYMENT
from tests.kustomize.replay.support import Case, check, compare, write
from trainyard.kustomize.replay import names
from trainyard.kustomize.replay.fieldspecs import split
from trainyard.yaml.fieldpath import Path

WEB = "Deployment/web"
CASES: dict[str, Case] = {
    "prefix-and-suffix": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base, role.yaml, hpa.yaml]
namePrefix: dev-
nameSuffix: -v2
namespace: team
=== over/role.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bind}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: runner, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [settings, other], verbs: [get]}]
=== over/hpa.yaml
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 3}
""",
        {
            ("Deployment/team/dev-web-v2", "metadata.name"): "base/deployment.yaml: name: web [web]",
            ("Deployment/team/dev-web-v2", "spec.template.spec.containers[0].envFrom[0].configMapRef.name"): (
                "base/config-map.yaml: metadata: {name: settings} [settings]"
            ),
        },
    ),
    "labels-and-annotations": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base, more.yaml]
labels:
- pairs: {plain: a}
- pairs: {selected: b}
  includeSelectors: true
- pairs: {templated: c}
  includeTemplates: true
- pairs: {custom: d}
  fields:
  - {path: spec/extra/labels, kind: NetworkPolicy, create: true}
commonAnnotations:
  owner: team
=== over/more.yaml
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "* * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: y}]}}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  selector: {}
  serviceName: web
  template: {spec: {containers: [{name: x, image: y}]}}
  volumeClaimTemplates: [{metadata: {name: d}, spec: {}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: peers}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}, {namespaceSelector: {}}]}]
""",
        {
            (WEB, "metadata.labels.plain"): "over/kustomization.yaml: - pairs: {plain: a} [a]",
            (WEB, "spec.selector.matchLabels.selected"): "over/kustomization.yaml: - pairs: {selected: b} [b]",
            ("NetworkPolicy/peers", "spec.podSelector.matchLabels.app"): (
                "over/more.yaml: podSelector: {matchLabels: {app: web}} [web]"
            ),
            (WEB, "metadata.annotations.owner"): "over/kustomization.yaml: owner: team [team]",
        },
    ),
    "common-labels": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
commonLabels: {app: all, added: x}
""",
        {
            (
                WEB,
                "spec.template.metadata.labels.app",
            ): "over/kustomization.yaml: commonLabels: {app: all, added: x} [all]"
        },
    ),
    "images-and-replicas": (
        DEPLOYMENT
        + CUSTOM.replace("base/", "jobs/")
        + """
=== over/kustomization.yaml
resources: [../base, ../jobs]
images:
- name: registry.example.com/web
  newTag: "3"
- name: trainer
  newName: registry.example.com/trainer
  digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
- name: side
  newName: other
- name: absent
  newTag: x
replicas:
- name: web
  count: 7
""",
        {
            (WEB, "spec.template.spec.containers[0].image"): 'over/kustomization.yaml: newTag: "3" ["3"]',
            (WEB, "spec.replicas"): "over/kustomization.yaml: count: 7 [7]",
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_kustomize(case: Case, tmp_path: FilePath) -> None:
    check(case, tmp_path)


_VERSIONS = {
    "CronJob": "batch/v1",
    "Job": "batch/v1",
    "Ingress": "networking.k8s.io/v1",
    "IngressClass": "networking.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PriorityClass": "scheduling.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
}
_APPS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_AUTHORIZATION = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_ADMISSION = ("Mutating", "Validating")


def _object(kind: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    version = _VERSIONS.get(kind, "v1")
    version = "apps/v1" if kind in _APPS else version
    version = "rbac.authorization.k8s.io/v1" if kind in _AUTHORIZATION else version
    version = "admissionregistration.k8s.io/v1" if kind.startswith(_ADMISSION) else version
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _holding(path: Path, named: str) -> dict[str, Any]:
    held: Any = {"kind": named, "name": "it"} if path[-1] in ("subjects", "service") else "it"
    held = [held] if path[-1] in ("subjects", "resourceNames") else held
    for step in reversed(path):
        held = {step: held}
    assert isinstance(held, dict)
    return held


def test_names_are_repaired_where_kustomize_does(tmp_path: FilePath) -> None:
    pods = [(named, kind, f"{prefix}/{path}") for kind, prefix in names.PODS.items() for named, path in names.IN_PODS]
    misspelt = ("IngressClass", "Ingress", "spec/ingressClassName")  # in kustomize's table, so that it never applies
    references = [*pods, *names.ELSEWHERE, misspelt]
    referents = [_object(kind, "it", {}) for kind in sorted({named for named, _, _ in references})]
    holders = [
        _object(kind, f"holder-{index}", _holding(split(path), named))
        for index, (named, kind, path) in enumerate(references)
    ]
    objects = "---\n".join(json.dumps(each) + "\n" for each in (*referents, *holders))
    write(tmp_path, f"=== over/kustomization.yaml\nnamePrefix: q-\nresources: [all.yaml]\n=== over/all.yaml\n{objects}")
    both = compare(tmp_path, "over")
    assert both.differences() == []
    assert len(both.objects) == len(referents) + len(holders)
