"""Patches of every form, as the real kustomize applies them."""

from pathlib import Path

import pytest

from tests.kustomize.replay.bases import CUSTOM, DEPLOYMENT
from tests.kustomize.replay.support import Case, check

WEB = "Deployment/web"
CASES: dict[str, Case] = {
    "strategic-merge": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
patches:
- path: patch.yaml
- path: delete.yaml
  target: {kind: ConfigMap}
- target: {kind: Service, name: we.*}
  patch: |
    apiVersion: v1
    kind: Service
    metadata: {name: ignored}
    spec:
      ports:
      - {port: 80, targetPort: 8080}
      - {port: 443, name: https}
      selector:
        $patch: replace
        tier: front
=== over/patch.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {added: "yes"}
  labels: {app: null}
spec:
  replicas: 3
  strategy: {type: Recreate, rollingUpdate: null}
  template:
    spec:
      serviceAccountName: null
      containers:
      - name: app
        command: [other]
        ports:
        - containerPort: 9090
          name: metrics
        - containerPort: 7000
        env:
        - {name: NEW, value: "1"}
        - {name: LEVEL, $patch: delete}
        - {name: MODE, value: fast}
        volumeMounts:
        - {mountPath: /data, readOnly: true}
      - name: side
        $patch: delete
      - name: third
        image: third
      volumes:
      - name: tmp
        emptyDir: {medium: Memory}
      tolerations:
      - {key: gpu, operator: Exists}
=== over/delete.yaml
$patch: delete
apiVersion: v1
kind: ConfigMap
metadata: {name: any}
""",
        {
            (WEB, "spec.replicas"): "over/patch.yaml: replicas: 3 [3]",
            (
                WEB,
                "spec.template.spec.containers[0].env[NEW].value",
            ): 'over/patch.yaml: - {name: NEW, value: "1"} ["1"]',
            (
                WEB,
                "spec.template.spec.containers[0].env[MODE].value",
            ): "over/patch.yaml: - {name: MODE, value: fast} [fast]",
            (WEB, "spec.template.spec.containers[0].image"): (
                "base/deployment.yaml: image: registry.example.com/web:1.0 [registry.example.com/web:1.0]"
            ),
            ("Service/web", "spec.selector.tier"): "over/kustomization.yaml: tier: front [front]",
            (
                "Service/web",
                "spec.ports[0].targetPort",
            ): "over/kustomization.yaml: - {port: 80, targetPort: 8080} [8080]",
        },
    ),
    "list-directives": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
patches:
- patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      selector: {$patch: merge, matchLabels: {extra: "1"}}
      template:
        spec:
          containers:
          - name: app
            env:
            - $patch: replace
            - {name: ONLY, value: this}
            volumeMounts:
            - $patch: delete
            envFrom: null
          volumes: []
""",
        {
            (WEB, "spec.template.spec.containers[0].env[ONLY].value"): (
                "over/kustomization.yaml: - {name: ONLY, value: this} [this]"
            )
        },
    ),
    "custom-resource-list-is-replaced": (
        CUSTOM
        + """
=== over/kustomization.yaml
resources: [../base]
patches: [{path: patch.yaml}]
=== over/patch.yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            env: [{name: NCCL_DEBUG, value: INFO}]
""",
        {("PyTorchJob/train", "spec.pytorchReplicaSpecs.Worker.replicas"): "over/patch.yaml: replicas: 2 [2]"},
    ),
    "numbers-over-quoted-texts": (
        """
=== over/kustomization.yaml
resources: [thing.yaml]
patches: [{path: patch.yaml}]
=== over/thing.yaml
apiVersion: example.com/v1
kind: Thing
metadata: {name: x}
spec: {a: "1", b: '1', c: one, d: 1}
=== over/patch.yaml
apiVersion: example.com/v1
kind: Thing
metadata: {name: x}
spec: {a: 4, b: true, c: 2e-5, d: "4"}
""",
        {("Thing/x", "spec.a"): 'over/patch.yaml: spec: {a: 4, b: true, c: 2e-5, d: "4"} [4]'},
    ),
    "rename-by-patch": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
patches:
- target: {kind: ConfigMap}
  options: {allowNameChange: true}
  patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}'
""",
        {
            ("ConfigMap/new", "metadata.name"): (
                "over/kustomization.yaml: patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}' [new]"
            )
        },
    ),
    "json-patch": (
        DEPLOYMENT
        + CUSTOM.replace("base/", "jobs/")
        + """
=== over/kustomization.yaml
resources: [../base, ../jobs]
patches:
- target: {kind: Deployment}
  path: ops.yaml
- target: {group: kubeflow.org, version: v1, kind: PyTorchJob}
  patch: |-
    - op: replace
      path: /spec/pytorchReplicaSpecs/Worker/replicas
      value: 8
    - op: add
      path: /spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/limits/rdma~1hca
      value: 1
- target: {kind: Deploymnet}
  patch: '[{"op": "remove", "path": "/spec"}]'
=== over/ops.yaml
- {op: test, path: /spec/replicas, value: 1}
- {op: replace, path: /spec/replicas, value: 6}
- {op: add, path: /metadata/annotations, value: {}}
- {op: add, path: /metadata/annotations/example.com~1a~0b, value: c}
- {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: LAST, value: z}}
- {op: add, path: /spec/template/spec/containers/0/env/0, value: {name: FIRST, value: a}}
- {op: remove, path: /spec/template/spec/containers/1}
- {op: move, from: /spec/template/spec/volumes/1, path: /spec/template/spec/volumes/0}
- {op: copy, from: /spec/template/spec/containers/0/image, path: /metadata/annotations/image}
""",
        {
            (WEB, "spec.replicas"): "over/ops.yaml: - {op: replace, path: /spec/replicas, value: 6} [6]",
            (WEB, "metadata.annotations.image"): (
                "base/deployment.yaml: image: registry.example.com/web:1.0 [registry.example.com/web:1.0]"
            ),
            ("PyTorchJob/train", "spec.pytorchReplicaSpecs.Worker.replicas"): "over/kustomization.yaml: value: 8 [8]",
        },
    ),
    "old-patch-fields": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
bases: [../base]
patchesStrategicMerge:
- memory.yaml
- |-
  apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec: {replicas: 9}
patchesJson6902:
- target: {group: apps, version: v1, kind: Deployment, name: web}
  path: ops.json
imageTags:
- {name: registry.example.com/web, newTag: "2.5"}
=== over/memory.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: app
        resources: {limits: {memory: 1Gi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort}
=== over/ops.json
[
  {"op": "add", "path": "/spec/paused", "value": true}
]
""",
        {
            (WEB, "spec.replicas"): "over/kustomization.yaml: spec: {replicas: 9} [9]",
            (WEB, "spec.paused"): 'over/ops.json: {"op": "add", "path": "/spec/paused", "value": true} [true]',
            ("Service/web", "spec.type"): "over/memory.yaml: spec: {type: NodePort} [NodePort]",
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_kustomize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
