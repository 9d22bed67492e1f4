"""Resources, components, a base that comes twice and a namespace, as the real kustomize has them."""

from pathlib import Path

import pytest

from tests.kustomize.replay.bases import DEPLOYMENT
from tests.kustomize.replay.support import Case, check

CASES: dict[str, Case] = {
    "resources-and-namespace": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
namespace: team-a
resources:
- ../base
- extra.yaml
=== over/extra.yaml
---
# nothing
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: one}
  data: &shared {A: "1", B: "010"}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: two}
  data: {<<: *shared, B: "2"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bind}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: runner, namespace: default}
- {kind: ServiceAccount, name: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: some}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
""",
        {
            ("Deployment/team-a/web", "metadata.namespace"): "over/kustomization.yaml: namespace: team-a [team-a]",
            ("Deployment/team-a/web", "spec.replicas"): "base/deployment.yaml: replicas: 1 [1]",
            ("ConfigMap/team-a/two", "data.A"): 'over/extra.yaml: data: &shared {A: "1", B: "010"} ["1"]',
            ("ConfigMap/team-a/two", "data.B"): 'over/extra.yaml: data: {<<: *shared, B: "2"} ["2"]',
            ("PriorityClass/high", "value"): "over/extra.yaml: value: 10 [10]",
        },
    ),
    "components": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
components: [../parts/debug]
namePrefix: dev-
=== parts/debug/kustomization.yaml
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources: [config-map.yaml]
patches:
- path: patch.yaml
=== parts/debug/config-map.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: debug}
data: {VERBOSE: "1"}
=== parts/debug/patch.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: app
        envFrom:
        - configMapRef: {name: debug}
""",
        {
            ("Deployment/dev-web", "spec.template.spec.containers[0].envFrom[0].configMapRef.name"): (
                "parts/debug/config-map.yaml: metadata: {name: debug} [debug]"
            ),
            ("ConfigMap/dev-debug", "data.VERBOSE"): 'parts/debug/config-map.yaml: data: {VERBOSE: "1"} ["1"]',
        },
    ),
    "one-base-twice": (
        DEPLOYMENT
        + """
=== a/kustomization.yaml
resources: [../base]
namePrefix: a-
=== b/kustomization.yaml
resources: [../base]
namePrefix: b-
images: [{name: side, newName: other}]
=== over/kustomization.yaml
resources: [../a, ../b]
commonAnnotations: {both: "true"}
""",
        {
            ("Deployment/b-web", "spec.template.spec.containers[1].image"): (
                "b/kustomization.yaml: images: [{name: side, newName: other}] [other]"
            )
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_kustomize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
