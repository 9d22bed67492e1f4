"""Roles of one job that do not agree."""

from collections.abc import Iterator

from trainyard.catalogues.variables import variable
from trainyard.findings.finding import Severity
from trainyard.rules.common.settings import env_is_known, known
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, EnvVar, Workload

_LIBRARY_SWITCHES = ("TF_", "XLA_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_", "TORCH_", "PYTORCH_")
_PER_POD = frozenset({"TF_CONFIG", "CUDA_VISIBLE_DEVICES"})


@rule("ENV007", "differs-between-roles", Severity.ERROR, needs=Workload)
def differs_between_roles(workload: Workload) -> Iterator[Problem]:
    """Roles whose ranks train together set a communication variable differently, or only some of them set it.

    Ranks must agree on algorithm, protocol, buffers and transport. Where they do not, the first collective hangs or
    crashes, and no message speaks of the configuration.

    Bad:
        # on: pytorchjob
        spec:
          pytorchReplicaSpecs:
            Master:
              template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_BUFFSIZE, value: "8388608"}]}]}}
            Worker:
              template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_BUFFSIZE, value: "4194304"}]}]}}
    Good:
        # on: pytorchjob
        spec:
          pytorchReplicaSpecs:
            Master:
              template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_BUFFSIZE, value: "8388608"}]}]}}
            Worker:
              template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_BUFFSIZE, value: "8388608"}]}]}}
    Near miss:
        # on: pytorchjob
        spec:
          pytorchReplicaSpecs:
            Master: {template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_DEBUG, value: INFO}]}]}}}
            Worker: {template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_DEBUG, value: WARN}]}]}}}

    Source: https://github.com/NVIDIA/nccl/issues/626
    """
    for name, roles in _unequal(workload):
        facts = variable(name)
        if facts is not None and facts.same_on_all_ranks:
            yield _problem(name, roles, "ranks must agree on it")


@rule("ENV012", "switch-in-one-role", Severity.WARNING, needs=Workload)
def switch_in_one_role(workload: Workload) -> Iterator[Problem]:
    """Roles that run the same program set a switch of its libraries differently, or only some of them set it.

    A switch such as TF_FORCE_GPU_ALLOW_GROWTH that only the chief gets makes the workers behave otherwise: they take
    all GPU memory, or compute in another precision. It is nearly always a line that was forgotten.

    Bad:
        # on: tfjob
        spec:
          tfReplicaSpecs:
            Chief:
              template:
                spec: {containers: [{name: tensorflow, env: [{name: TF_FORCE_GPU_ALLOW_GROWTH, value: "true"}]}]}
    Good:
        # on: tfjob
        spec:
          tfReplicaSpecs:
            Chief:
              template: &pod
                spec: {containers: [{name: tensorflow, env: [{name: TF_FORCE_GPU_ALLOW_GROWTH, value: "true"}]}]}
            Worker: {template: *pod}
    Near miss:
        # on: tfjob
        spec:
          tfReplicaSpecs:
            Chief:
              template: {spec: {containers: [{name: tensorflow, env: [{name: TF_CPP_MIN_LOG_LEVEL, value: "0"}]}]}}
            Worker: null
            PS: {replicas: 2, template: {spec: {containers: [{name: tensorflow, command: [python, train.py]}]}}}

    Source: https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth
    """
    programs = {(main.image, tuple(word.text for word in main.words)) for _, main in _training_roles(workload)}
    if len(programs) > 1:
        return
    for name, roles in _unequal(workload):
        facts = variable(name)
        if name.startswith(_LIBRARY_SWITCHES) and name not in _PER_POD and not (facts and facts.same_on_all_ranks):
            yield _problem(name, roles, "the same program runs in both")


def _training_roles(workload: Workload) -> list[tuple[str, Container]]:
    """Roles whose pods hold GPUs and take part in the collectives, each with the container that trains."""
    mains = ((pod_set.role, pod_set.main()) for pod_set in workload.pod_sets if pod_set.role != "evaluator")
    return [(role, main) for role, main in mains if main is not None and main.gpus]


def _unequal(workload: Workload) -> Iterator[tuple[str, dict[str, tuple[Container, EnvVar | None]]]]:
    """Variables that roles set differently. One whose value is not known everywhere is left out."""
    roles = _training_roles(workload)
    if len(roles) < 2:
        return
    complete = all(env_is_known(workload, main) for _, main in roles)
    for name in dict.fromkeys(name for _, main in roles for name in main.env):
        found = {role: (main, main.env.get(name)) for role, main in roles}
        present = [var for _, var in found.values() if var is not None]
        if any(known(var.value) is None or var.origin == "controller" for var in present):
            continue
        if len({var.value for var in present}) > 1 or (complete and len(present) < len(found)):
            yield name, found


def _problem(name: str, roles: dict[str, tuple[Container, EnvVar | None]], why: str) -> Problem:
    told = [f"{var.value} in {role}" if var else f"not set in {role}" for role, (_, var) in roles.items()]
    spots = [var.spot if var else main.spot.below("env", label=f"no {name} here") for main, var in roles.values()]
    first = next(index for index, (_, var) in enumerate(roles.values()) if var)
    return Problem(
        f"{name} is {' and '.join(told)}",
        spots[first],
        related=tuple(spot for index, spot in enumerate(spots) if index != first),
        help=f"set it alike in every role: {why}",
    )
