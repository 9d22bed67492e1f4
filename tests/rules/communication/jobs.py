"""Jobs of several roles, with gaps for what a test is about."""

MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench, namespace: research}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: registry.example.com/bench:1
            command: [mpirun, -np, "16", -x, PATH, %s, all_reduce_perf]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: registry.example.com/bench:1
            resources: {limits: {nvidia.com/gpu: 8%s}}
"""
TRAINING = MPI.replace("all_reduce_perf", "python, train.py")
PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: research}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: "registry.example.com/train:1", command: [torchrun, train.py],
            env: [%s], resources: {limits: {nvidia.com/gpu: 8}}}
    Worker:
      replicas: 3
      template:
        spec:
          containers:
          - {name: pytorch, image: "registry.example.com/train:1", command: [torchrun, train.py],
            env: [%s], %sresources: {limits: {nvidia.com/gpu: 8}}}
"""
MASTER_ENV = "PyTorchJob/bert spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env"
