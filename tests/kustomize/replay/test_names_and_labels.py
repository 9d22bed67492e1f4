"""Prefixes, suffixes, labels, annotations, images and replicas, as the real kustomize writes them."""

from pathlib import Path

import pytest

from tests.kustomize.replay.bases import CUSTOM, DEPLOYMENT
from tests.kustomize.replay.support import Case, check

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
def test_equals_kustomize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
