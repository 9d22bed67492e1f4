"""Replacements, transformers in files of their own and their configuration, as the real kustomize runs them."""

from pathlib import Path

import pytest

from tests.kustomize.replay.bases import CUSTOM, DEPLOYMENT, LOCAL
from tests.kustomize.replay.support import Case, check

WEB = "Deployment/web"
CASES: dict[str, Case] = {
    "replacements": (
        DEPLOYMENT
        + LOCAL
        + CUSTOM.replace("base/job", "base/pytorchjob")
        + """
=== over/kustomization.yaml
resources: [../base]
replacements:
- path: more.yaml
- source: {kind: TrainingJob, name: fact, fieldPath: spec.nodes}
  targets:
  - select: {kind: Deployment}
    fieldPaths: [spec.replicas, "spec.template.spec.containers.[name=app].env.[name=LEVEL].value"]
  - select: {kind: PyTorchJob, group: kubeflow.org}
    fieldPaths: [spec.pytorchReplicaSpecs.Worker.replicas]
- source: {kind: TrainingJob, fieldPath: spec.rate}
  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.RATE]}]
- source: {kind: TrainingJob, fieldPath: spec.command}
  targets:
  - select: {kind: PyTorchJob}
    fieldPaths: ["spec.pytorchReplicaSpecs.Worker.template.spec.containers.*.command"]
- source: {kind: TrainingJob, fieldPath: spec.nccl}
  targets: [{select: {kind: ConfigMap, name: settings}, fieldPaths: [data], options: {create: true}}]
- source: {kind: TrainingJob, fieldPath: "spec.labels.[a.b/c]"}
  targets:
  - select: {kind: Service|Deployment}
    reject: [{kind: Deployment, name: web}]
    fieldPaths: ["metadata.annotations.[example.com/x]"]
    options: {create: true}
- source: {kind: TrainingJob, fieldPath: spec.image, options: {delimiter: ":", index: 1}}
  targets:
  - select: {kind: Deployment}
    fieldPaths: ["spec.template.spec.containers.[name=app].image"]
    options: {delimiter: ":", index: 1}
  - select: {kind: PersistentVolumeClaim}
    fieldPaths: [metadata.labels.tag]
    options: {create: true}
=== over/more.yaml
- source: {kind: TrainingJob, fieldPath: spec.parts, options: {delimiter: /, index: 2}}
  targets:
  - select: {kind: Service, name: web}
    fieldPaths: [spec.selector.app]
- source: {kind: Service, name: web, fieldPath: "spec.ports.[name=metrics].port"}
  targets:
  - select: {labelSelector: app=web, kind: Deployment}
    fieldPaths: ["spec.template.spec.containers.0.ports.1.containerPort"]
- source: {kind: ServiceAccount}
  targets:
  - select: {kind: Deployment}
    fieldPaths: ["spec.template.spec.containers.[name=app].env.[name=MADE].value"]
    options: {create: true}
=== base/kustomization.yaml
resources:
- deployment.yaml
- config-map.yaml
- service.yaml
- service-account.yaml
- claim.yaml
- fact.yaml
- pytorchjob.yaml
""",
        {
            (WEB, "spec.replicas"): "base/fact.yaml: nodes: 4 [4]",
            (WEB, "spec.template.spec.containers[0].env[LEVEL].value"): "base/fact.yaml: nodes: 4 [4]",
            (WEB, "spec.template.spec.containers[0].env[MADE].value"): (
                "base/service-account.yaml: metadata: {name: runner} [runner]"
            ),
            (WEB, "spec.template.spec.containers[0].ports[1].containerPort"): (
                "base/service.yaml: - {name: metrics, port: 9090} [9090]"
            ),
            ("ConfigMap/settings", "data.NCCL_DEBUG"): (
                "base/fact.yaml: nccl: {NCCL_DEBUG: INFO, NCCL_IB_HCA: mlx5} [INFO]"
            ),
            ("Service/web", "spec.selector.app"): "base/fact.yaml: parts: one/two/three [one/two/three]",
            ("Service/web", "metadata.annotations[example.com/x]"): "base/fact.yaml: labels: {a.b/c: x} [x]",
            ("PyTorchJob/train", "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command[2]"): (
                "base/fact.yaml: command: [torchrun, -m, trainer] [trainer]"
            ),
        },
    ),
    "transformers": (
        DEPLOYMENT
        + LOCAL
        + """
=== base/kustomization.yaml
resources: [deployment.yaml, config-map.yaml, service.yaml, service-account.yaml, claim.yaml, fact.yaml]
=== over/kustomization.yaml
resources: [../base]
transformers:
- ../wiring
- |-
  apiVersion: builtin
  kind: AnnotationsTransformer
  metadata: {name: inline}
  annotations: {inline: "yes"}
  fieldSpecs: [{path: metadata/annotations, create: true}]
generators: [generator.yaml]
=== over/generator.yaml
apiVersion: builtin
kind: ConfigMapGenerator
metadata: {name: generated}
literals: [A=b]
options: {disableNameSuffixHash: true}
=== over/ops.yaml
- {op: add, path: /spec/paused, value: true}
=== wiring/kustomization.yaml
resources: [replacements.yaml, rest.yaml, facts.yaml]
=== wiring/replacements.yaml
apiVersion: builtin
kind: ReplacementTransformer
metadata: {name: wiring}
replacements:
- source: {kind: TrainingJob, fieldPath: metadata.name}
  targets:
  - {select: {kind: Deployment}, fieldPaths: [metadata.name]}
  - {select: {kind: ConfigMap, name: settings}, options: {delimiter: tt, index: 0}, fieldPaths: [metadata.name]}
=== wiring/rest.yaml
apiVersion: builtin
kind: NamespaceTransformer
metadata: {name: ns, namespace: by-transformer}
unsetOnly: true
---
apiVersion: builtin
kind: PrefixTransformer
metadata: {name: prefix}
prefix: p-
fieldSpecs: [{path: metadata/name}]
---
apiVersion: builtin
kind: LabelTransformer
metadata: {name: labels}
labels: {wired: "true"}
fieldSpecs:
- {path: metadata/labels, create: true}
- {path: spec/template/metadata/labels, kind: Deployment, create: true}
---
apiVersion: builtin
kind: ImageTagTransformer
metadata: {name: image}
imageTag: {name: registry.example.com/web, newTag: "9"}
---
apiVersion: builtin
kind: ReplicaCountTransformer
metadata: {name: count}
replica: {name: p-fact, count: 5}
fieldSpecs: [{path: spec/replicas, kind: Deployment, create: true}]
---
apiVersion: builtin
kind: PatchJson6902Transformer
metadata: {name: json}
target: {kind: Deployment, name: p-fact}
path: ops.yaml
---
apiVersion: builtin
kind: PatchStrategicMergeTransformer
metadata: {name: merge}
patches: |-
  apiVersion: v1
  kind: Service
  metadata: {name: web}
  spec: {clusterIP: None}
=== wiring/facts.yaml
apiVersion: builtin
kind: PatchTransformer
metadata: {name: facts}
target: {kind: TrainingJob}
patch: |-
  $patch: delete
  apiVersion: trainyard.dev/v1alpha1
  kind: TrainingJob
  metadata: {name: any}
""",
        {
            ("Deployment/by-transformer/p-fact", "spec.template.spec.containers[0].image"): (
                'wiring/rest.yaml: imageTag: {name: registry.example.com/web, newTag: "9"} ["9"]'
            ),
            ("Deployment/by-transformer/p-fact", "spec.paused"): (
                "over/ops.yaml: - {op: add, path: /spec/paused, value: true} [true]"
            ),
            ("Service/by-transformer/p-web", "spec.clusterIP"): "wiring/rest.yaml: spec: {clusterIP: None} [None]",
        },
    ),
    "configurations": (
        CUSTOM
        + """
=== over/kustomization.yaml
resources: [../base, config.yaml]
namePrefix: x-
images: [{name: special, newTag: "2"}]
commonLabels: {l: m}
configurations: [fields.yaml]
=== over/config.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: thing}
spec: {config: settings, picture: "special:1", selector: {a: b}}
=== over/fields.yaml
nameReference:
- kind: ConfigMap
  fieldSpecs: [{path: spec/config, kind: Thing}]
images: [{path: spec/picture, kind: Thing}]
commonLabels: [{path: spec/selector, kind: Thing}]
""",
        {("Thing/x-thing", "spec.config"): "over/config.yaml: metadata: {name: settings} [settings]"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_kustomize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
