"""Launch lines of jobs of two pods, and what comes of them: the linter is asked, and so are the real launchers."""

from dataclasses import dataclass

import yaml

from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.workload.model import Workload
from trainyard.workload.of_unit import workloads

APART, TOGETHER, REFUSED, WAITS = "each pod alone", "one world", "nothing starts", "the pods wait for each other"
SAID = {
    APART: {"RDV014"},
    TOGETHER: set(),
    REFUSED: {"LCH004"},
    WAITS: {"RDV008"},
}
"""Which rules say what."""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: pair, namespace: a}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      subdomain: pair
      restartPolicy: Never
      containers: [{name: pytorch, image: a, resources: {limits: {nvidia.com/gpu: 2}}}]
"""
OVER_RDMA = JOB.replace("      subdomain: pair\n", "").replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 2, rdma/ib: 1")
PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair, namespace: a}
spec:
  nprocPerNode: "2"
  pytorchReplicaSpecs:
    Master: &pods
      replicas: 1
      template: {spec: {containers: [{name: pytorch, image: a, resources: {limits: {nvidia.com/gpu: 2}}}]}}
    Worker: *pods
"""
HOSTFILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: hosts, namespace: a}
data: {hostfile: "pair-0.pair slots=2\\npair-1.pair slots=2\\n"}
"""
HOSTS = ("pair-0.pair", "pair-1.pair")
OPERATED_HOSTS = ("pair-master-0", "pair-worker-0")
C10D = {"PET_NNODES": "2", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "pair-0.pair:29400", "PET_RDZV_ID": "pair"}


@dataclass(frozen=True)
class Pair:
    """Two pods that run one command line."""

    command: str
    comes_to: str
    kind: str = JOB
    env: tuple[tuple[str, str], ...] = ()
    hostfile: bool = False

    def workload(self) -> Workload:
        """The job."""
        job = yaml.safe_load(self.kind)
        spec = job["spec"]
        pods = [spec] if "template" in spec else list(spec["pytorchReplicaSpecs"].values())
        for pod in {id(each): each for each in pods}.values():
            container = pod["template"]["spec"]["containers"][0]
            container["command"] = ["bash", "-c", self.command]
            container["env"] = [{"name": name, "value": value} for name, value in self.env]
            if self.hostfile:
                container["volumeMounts"] = [{"name": "hosts", "mountPath": "/job"}]
                pod["template"]["spec"]["volumes"] = [{"name": "hosts", "configMap": {"name": "hosts"}}]
        objects = (Object.of(job, 0), Object.of(yaml.safe_load(HOSTFILE), 1))
        (found,) = workloads(Unit("pair", False, objects))
        return found


_RANK = "--machine_rank $JOB_COMPLETION_INDEX"
PAIRS = {
    "torchrun": Pair("torchrun --nproc_per_node=2 world.py", APART, kind=OVER_RDMA),
    "torchrun-standalone": Pair("torchrun --standalone --nproc_per_node=2 world.py", APART),
    "torchrun-wrapped": Pair("env -u A nice -n 1 torchrun --standalone world.py", APART),
    "torchrun-by-the-operator": Pair("torchrun world.py", TOGETHER, kind=PYTORCH_JOB),
    "torchrun-by-variables": Pair("torchrun --nproc_per_node=2 world.py", TOGETHER, env=tuple(C10D.items())),
    "accelerate": Pair("accelerate launch --multi_gpu --num_processes 2 world.py", APART),
    "accelerate-told-of-machines": Pair(
        f"accelerate launch --multi_gpu --num_machines 2 {_RANK} --main_process_ip pair-0.pair"
        " --num_processes 4 world.py",
        TOGETHER,
    ),
    "accelerate-without-a-rank": Pair(
        "accelerate launch --multi_gpu --num_machines 2 --main_process_ip pair-0.pair --num_processes 4 world.py",
        REFUSED,
    ),
    "accelerate-by-the-operator": Pair(
        "accelerate launch --multi_gpu --num_processes 2 world.py", TOGETHER, kind=PYTORCH_JOB
    ),
    "accelerate-takes-no-backend-from-variables": Pair(
        "accelerate launch --multi_gpu --num_processes 2 world.py", WAITS, env=tuple(C10D.items())
    ),
    "accelerate-over-deepspeed": Pair(
        f"accelerate launch --use_deepspeed --num_machines 2 {_RANK} --main_process_ip pair-0.pair"
        " --main_process_port 29500 --num_processes 4 world.py",
        APART,
    ),
    "deepspeed": Pair("deepspeed --num_gpus 2 world.py", APART),
    "deepspeed-under-the-operator": Pair("deepspeed --num_gpus 2 world.py", APART, kind=PYTORCH_JOB),
    "deepspeed-without-hosts": Pair("deepspeed --num_nodes 2 --num_gpus 2 world.py", REFUSED),
    "deepspeed-without-ssh-and-hosts": Pair(
        "deepspeed --no_ssh --node_rank $JOB_COMPLETION_INDEX --num_gpus 2 world.py", REFUSED
    ),
    "deepspeed-without-ssh": Pair(
        "deepspeed --no_ssh --node_rank $JOB_COMPLETION_INDEX --master_addr pair-0.pair world.py",
        TOGETHER,
        hostfile=True,
    ),
    "mpirun": Pair("mpirun --allow-run-as-root --oversubscribe -np 2 python world.py", APART),
    "python-of-an-operator": Pair("python world.py", TOGETHER, kind=PYTORCH_JOB),
}
