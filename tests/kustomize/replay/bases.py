"""Folders to build on: a service of every built-in kind, a custom resource, and a fact that is not applied."""

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
