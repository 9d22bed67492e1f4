"""What DeepSpeed's launcher passes on, and what Kubeflow Trainer sets itself."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import remove
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import EFA, is_rdma
from trainyard.rules.common.settings import assignments, environments, launched_by
from trainyard.rules.common.variable_remedies import assigned, unsafely
from trainyard.rules.environment.passing import listed, read_by_ranks
from trainyard.rules.nccl.image import Release, parsed
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Launch, Workload
from trainyard.workload.plain import digits, entries, mapping, text
from trainyard.workload.trainjob import runtime, runtime_name

_EXPORTED_BY_DEEPSPEED = ("MLFLOW", "PYTHON", "MV2", "UCX", "NCCL", "LD_LIBRARY", "PATH")
_TORCH_RESERVED = frozenset({"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"})
_MPI_RESERVED = frozenset(
    {
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    }
)
_RESERVED = {"mpi": _MPI_RESERVED, "torch": _TORCH_RESERVED}
"""What Trainer sets, by the policy of a runtime."""
_LONGEST_MINUTES = 300
_MERGES = (2, 3)
"""The release of Kubeflow Trainer that merges a TrainJob's resources with its runtime's."""


@rule("NCL061", "variables-not-passed-by-deepspeed", Severity.WARNING, needs=Workload)
@once
def variables_not_passed_by_deepspeed(workload: Workload) -> Iterator[Problem]:
    """The deepspeed launcher starts ranks on other hosts without these variables.

    It passes on NCCL_, PYTHON, UCX and a few more by their prefix. FI_, OFI_NCCL_, GLOO_, TORCH_ and OMP_ variables
    reach the first host only, unless a file .deepspeed_env, or the one that DS_ENV_FILE names, lists them.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, command: [deepspeed], args: [--hostfile=/etc/hosts.txt, train.py]}]
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3", DS_ENV_FILE: /etc/deepspeed/env}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, command: [deepspeed], args: [--hostfile=/etc/hosts.txt, train.py]}]
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, command: [deepspeed], args: [--no_ssh, --hostfile=/etc/hosts.txt, train.py]}]

    Source: https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py
    """
    has_file = any(key.endswith(".deepspeed_env") for obj in workload.of_kind("ConfigMap") for key in _keys(obj))
    for each in environments(workload):
        launch = launched_by(each.container, "deepspeed")
        if launch is None or has_file or each.get("DS_ENV_FILE") is not None or not _over_hosts(launch):
            continue
        lost = [
            found
            for found in each.variables.values()
            if not found.name.startswith((*_EXPORTED_BY_DEEPSPEED, "PET_")) and read_by_ranks(workload, found)
        ]
        if lost:
            yield Problem(
                f"{listed([found.name for found in lost])} set, but deepspeed does not pass"
                f" {'it' if len(lost) == 1 else 'them'} to other hosts",
                lost[0].spot,
                related=(*(found.spot for found in lost[1:]), launch.spot),
                help="list them in a .deepspeed_env file",
            )


@rule("NCL063", "reserved-by-trainer", Severity.ERROR, needs=Workload, fix="safe")
def reserved_by_trainer(workload: Workload) -> Iterator[Problem]:
    """A TrainJob sets a variable that Kubeflow Trainer owns.

    The controller writes the number of nodes, the ranks and the meeting point of torchrun, and mpirun's hostfile. Its
    webhook refuses a TrainJob that sets one of them, or the value is overwritten.

    Bad:
        # on: trainjob
        spec: {trainer: {env: [{name: PET_NNODES, value: "4"}]}}
    Good:
        # on: trainjob
        spec: {trainer: {env: [{name: NCCL_DEBUG, value: WARN}]}}
    Near miss:
        # on: trainjob
        spec: {trainer: {env: [{name: PET_MAX_RESTARTS, value: "3"}]}}

    Source: https://github.com/kubeflow/trainer/blob/master/pkg/constants/constants.go
    """
    obj = workload.object
    if obj.kind != "TrainJob":
        return
    spec, owned = mapping(obj.data.get("spec")), _owned(workload)
    for index, item in entries(mapping(spec.get("trainer")).get("env")):
        if text(item.get("name")) in owned:
            yield Problem(
                f"{item['name']} is set, but Kubeflow Trainer sets it itself and refuses or overwrites it",
                obj.at("spec", "trainer", "env", index, label="not admitted"),
                help="take it out; numNodes, numProcPerNode and the runtime's policy say it",
                fix=remove(obj.at("spec", "trainer", "env", index)),
            )


def _owned(workload: Workload) -> frozenset[str]:
    """The variables of the policy that the runtime states; where no manifest holds it, its name tells, or nothing."""
    found = runtime(workload.object, workload.objects)
    if found is not None:
        policy = mapping(mapping(found.data.get("spec")).get("mlPolicy"))
        return frozenset().union(*(_RESERVED[name] for name in _RESERVED if isinstance(policy.get(name), dict)))
    _, name = runtime_name(workload.object)
    return next((_RESERVED[policy] for policy in _RESERVED if policy in name), frozenset())


@rule("NCL075", "fabric-device-dropped", Severity.ERROR, needs=Unit)
def fabric_device_dropped(unit: Unit) -> Iterator[Problem]:
    """A TrainJob's resources take the place of its runtime's, and leave the fabric device out.

    Up to Kubeflow Trainer 2.2 `resourcesPerNode` replaces all resources of the runtime's container; 2.3 merges them. A
    device that is not repeated is gone, and NCCL goes over TCP without a word. The runtime's labels tell the release.

    Bad:
        # on: trainjob
        spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, hugepages-2Mi: 5Gi}}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.1.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}
    Good:
        # on: trainjob
        spec:
          trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.1.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}
    Near miss:
        # on: trainjob
        spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, hugepages-2Mi: 5Gi}}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.3.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}

    Source: https://github.com/NVIDIA/aicr/issues/2275
    """
    there = (*unit.objects, *(unit.platform or ()))
    for job in (obj for obj in unit.objects if _is_trainers(obj, "TrainJob")):
        spec = mapping(job.data.get("spec"))
        given = mapping(mapping(spec.get("trainer")).get("resourcesPerNode"))
        name = mapping(spec.get("runtimeRef")).get("name")
        for found in (obj for obj in there if _is_trainers(obj, "TrainingRuntime") and obj.name == name):
            release = _trainer_release(found)
            for device, spot in _fabric_devices(found) if given and release is not None and release < _MERGES else ():
                if not any(device in mapping(given.get(kind)) for kind in ("limits", "requests")):
                    yield Problem(
                        f"resourcesPerNode leaves out {device}, and takes the place of all resources of the runtime"
                        f" in Trainer {'.'.join(map(str, release or ()))}",
                        job.at("spec", "trainer", "resourcesPerNode", label="all that the container gets"),
                        related=(spot.saying("dropped"),),
                        help=f"repeat {device} in limits and requests",
                    )


@rule("NCL064", "timeout-in-minutes", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def timeout_in_minutes(workload: Workload) -> Iterator[Problem]:
    """DEEPSPEED_TIMEOUT looks like seconds, and is read as minutes.

    1800 is thirty hours: a run whose peers are gone holds its GPUs for that long.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {DEEPSPEED_TIMEOUT: "1800"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {DEEPSPEED_TIMEOUT: "30"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {DEEPSPEED_TIMEOUT: "180"}

    Source: https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/constants.py
    """
    for found in assignments(workload, "DEEPSPEED_TIMEOUT"):
        if found.integer is not None and found.integer > _LONGEST_MINUTES:
            yield Problem(
                f"DEEPSPEED_TIMEOUT is {found.value} minutes, which is {found.integer / 60:.0f} hours",
                found.spot,
                help=f"write minutes: {max(found.integer // 60, 1)} where seconds were meant",
                fix=unsafely(assigned(found, str(max(found.integer // 60, 1)))),
            )


def _is_trainers(obj: Object, kind: str) -> bool:
    return obj.group == "trainer.kubeflow.org" and obj.kind.removeprefix("Cluster") == kind


def _trainer_release(runtime: Object) -> Release | None:
    """The release of Kubeflow Trainer that a runtime says it belongs to."""
    labels = mapping(mapping(runtime.data.get("metadata")).get("labels"))
    chart = text(labels.get("helm.sh/chart")).rpartition("-")[2]
    return parsed(text(labels.get("app.kubernetes.io/version")).removeprefix("v")) or parsed(chart)


def _fabric_devices(runtime: Object) -> Iterator[tuple[str, Spot]]:
    """The RDMA devices that the containers of a runtime's nodes request."""
    jobs = mapping(mapping(mapping(runtime.data.get("spec")).get("template")).get("spec")).get("replicatedJobs")
    for index, job in entries(jobs):
        path = ("template", "spec", "template", "spec")
        pod: object = job
        for step in path:
            pod = mapping(pod).get(step)
        for number, container in entries(mapping(pod).get("containers")):
            limits = mapping(mapping(container.get("resources")).get("limits"))
            spot = runtime.at("spec", "template", "spec", "replicatedJobs", index, *path, "containers", number)
            for name in limits:
                if isinstance(name, str) and (name == EFA or is_rdma(name)):
                    yield name, spot.below("resources", "limits", name)


def _over_hosts(launch: Launch) -> bool:
    """Whether deepspeed starts ranks on other hosts, by ssh."""
    hostfile, nodes = launch.option("hostfile"), launch.option("num_nodes")
    several = nodes is not None and (digits(str(nodes.value)) or 0) > 1
    return launch.option("no_ssh") is None and (several or (hostfile is not None and not hostfile.implied))


def _keys(obj: Object) -> list[str]:
    return [key for key in mapping(obj.data.get("data")) if isinstance(key, str)]
