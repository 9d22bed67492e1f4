"""Every kind of kustomization field, against the real kustomize: all leaves equal, and chosen ones at their place."""

from pathlib import Path

import pytest

from tests.replay.support import compare, write

DEPLOYMENT = """
=== base/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      serviceAccountName: runner
      containers:
      - name: app
        image: registry.example.com/web:1.0
        command: [serve, --port=8080]
        args: []
        ports:
        - containerPort: 8080
          protocol: TCP
        - containerPort: 9090
        env:
        - name: MODE
          value: slow
        - name: LEVEL
          value: "3"
        envFrom:
        - configMapRef: {name: settings}
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
      - name: side
        image: side@sha256:0123456789012345678901234567890123456789012345678901234567890123
      volumes:
      - name: data
        persistentVolumeClaim: {claimName: data}
      - name: tmp
        emptyDir: {}
=== base/config-map.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  KEY: value
  RATE: "2e-5"
=== base/service.yaml
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80}
  - {name: metrics, port: 9090}
=== base/service-account.yaml
apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
=== base/claim.yaml
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
=== base/kustomization.yaml
resources: [deployment.yaml, config-map.yaml, service.yaml, service-account.yaml, claim.yaml]
"""

CUSTOM = """
=== base/job.yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
          - name: pytorch
            image: trainer:1
            command: [torchrun, train.py]
            resources: {limits: {nvidia.com/gpu: 8}}
=== base/kustomization.yaml
resources: [job.yaml]
"""

LOCAL = """
=== base/fact.yaml
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: fact, annotations: {config.kubernetes.io/local-config: "true"}}
spec:
  nodes: 4
  rate: 2e-5
  image: registry.example.com/train:7
  command: [torchrun, -m, trainer]
  nccl: {NCCL_DEBUG: INFO, NCCL_IB_HCA: mlx5}
  labels: {a.b/c: x}
  parts: one/two/three
"""

WEB = "Deployment/web"
CASES: dict[str, tuple[str, dict[tuple[str, str], str]]] = {
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


@pytest.mark.parametrize("name", CASES)
def test_equals_kustomize(name: str, tmp_path: Path) -> None:
    tree, places = CASES[name]
    write(tmp_path, tree)
    both = compare(tmp_path, "over")
    assert both.differences() == []
    assert {(title, path): both.where(title, path) for title, path in places} == places
