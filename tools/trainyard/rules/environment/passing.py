"""Which variables are lost where a launcher does not pass them on."""

import re

from trainyard.catalogues.variables import variable
from trainyard.rules.common.settings import Assignment
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, sequence

_OWNERS = ("nccl", "torch", "gloo", "aws-ofi-nccl", "gpudirect-tcpx", "gpudirect-tcpxo", "ucx")
_FAMILIES = (
    "HF_",
    "TRANSFORMERS_",
    "WANDB_",
    "MLFLOW_",
    "CUDA_",
    "CUBLAS_",
    "TORCH",
    "PYTORCH_",
    "TF_",
    "XLA_",
    "OMP_",
)
_NOT_FOR_RANKS = re.compile(
    r"(OMPI|OPAL|ORTE|PRTE|PMIX|HYDRA|I_MPI|NVIDIA|KUBE\w*|LC|SSH|K8S|POD|NODE|DEBUG)(_.*)?\Z"
    r"|(PATH|LD_LIBRARY_PATH|HOME|USER|LANG|TZ|TERM|SHELL|HOSTNAME|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE)\Z"
)


def read_by_ranks(workload: Workload, found: Assignment) -> bool:
    """Whether the ranks read a variable: one of the libraries' or of well-known families, one that a TrainJob gives its
    trainer, or any on a container that runs mpirun and nothing else that could read it."""
    facts = variable(found.name)
    if facts is not None:
        return facts.owner in _OWNERS and facts.status in ("", "deprecated")
    if found.name.startswith(_FAMILIES) or found.name in _given_to_trainer(workload):
        return True
    command = sequence(found.container.data.get("command"))
    alone = bool(command) and str(command[0]).rpartition("/")[2] in ("mpirun", "mpiexec")
    return alone and found.value is not None and not _NOT_FOR_RANKS.match(found.name)


def listed(names: list[str]) -> str:
    """`A is`, `A, B and C are`."""
    ordered = sorted(names)
    return f"{ordered[0]} is" if len(ordered) == 1 else f"{', '.join(ordered[:-1])} and {ordered[-1]} are"


def _given_to_trainer(workload: Workload) -> frozenset[object]:
    trainer = mapping(mapping(workload.object.data.get("spec")).get("trainer"))
    given = workload.object.kind == "TrainJob"
    return frozenset(item.get("name") for _, item in entries(trainer.get("env"))) if given else frozenset()
