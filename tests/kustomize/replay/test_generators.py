"""Generated ConfigMaps and Secrets and who refers to them, as the real kustomize makes them."""

from pathlib import Path

import pytest

from tests.kustomize.replay.bases import DEPLOYMENT
from tests.kustomize.replay.support import Case, check

CASES: dict[str, Case] = {
    "config-map-generator": (
        DEPLOYMENT
        + """
=== over/kustomization.yaml
resources: [../base]
configMapGenerator:
- name: settings
  behavior: merge
  literals:
  - KEY=new
  - OTHER="in quotes"
- name: made
  literals: [A=1, "B=<&>"]
  files:
  - ds_config.json
  - renamed.txt=notes.txt
  envs: [values.env]
- name: plain
  namespace: elsewhere
  options: {disableNameSuffixHash: true, labels: {own: "yes"}, immutable: true}
  literals: [A=1]
generatorOptions:
  labels: {made-by: kustomize}
  annotations: {note: text}
patches:
- patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      template:
        spec:
          volumes:
          - name: files
            configMap: {name: made}
=== over/ds_config.json
{
  "train_batch_size": 512,
  "zero": {"stage": 3}
}
=== over/notes.txt
some notes
=== over/values.env
# comment
FROM_FILE=42
  INDENTED=x=y
EMPTY
""",
        {
            ("ConfigMap/settings", "data.KEY"): "over/kustomization.yaml: - KEY=new [new]",
            ("ConfigMap/settings", "data.RATE"): 'base/config-map.yaml: RATE: "2e-5" ["2e-5"]',
        },
    ),
    "secret-generator": (
        """
=== over/kustomization.yaml
secretGenerator:
- name: token
  literals: [password=hunter2]
- name: tls
  type: kubernetes.io/tls
  files: [tls.crt, tls.key]
- name: long
  options: {disableNameSuffixHash: true}
  files: [tls.crt]
resources: [pod.yaml]
=== over/tls.crt
0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
=== over/tls.key
key
=== over/pod.yaml
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - name: app
    image: app
    env:
    - name: PASSWORD
      valueFrom: {secretKeyRef: {name: token, key: password}}
""",
        {
            ("Pod/pod", "spec.containers[0].env[PASSWORD].valueFrom.secretKeyRef.key"): (
                "over/pod.yaml: valueFrom: {secretKeyRef: {name: token, key: password}} [password]"
            )
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_kustomize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
