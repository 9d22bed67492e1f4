"""What DeepSpeed's launcher passes on, and what Kubeflow Trainer sets itself."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import remove
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import assignments, environments, launched_by
from trainyard.rules.common.variable_remedies import assigned, unsafely
from trainyard.rules.environment.passing import listed, read_by_ranks
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


@rule("ENV026", "variables-not-passed-by-deepspeed", Severity.WARNING, needs=Workload)
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


@rule("ENV028", "reserved-by-trainer", Severity.ERROR, needs=Workload, fix="safe")
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


@rule("ENV029", "timeout-in-minutes", Severity.WARNING, needs=Workload, fix="unsafe")
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


def _over_hosts(launch: Launch) -> bool:
    """Whether deepspeed starts ranks on other hosts, by ssh."""
    hostfile, nodes = launch.option("hostfile"), launch.option("num_nodes")
    several = nodes is not None and (digits(str(nodes.value)) or 0) > 1
    return launch.option("no_ssh") is None and (several or (hostfile is not None and not hostfile.implied))


def _keys(obj: Object) -> list[str]:
    return [key for key in mapping(obj.data.get("data")) if isinstance(key, str)]
