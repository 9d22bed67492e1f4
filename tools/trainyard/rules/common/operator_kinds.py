"""The job kinds of Kubeflow's operators: where their replicas stand, and what the operator asks of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import part
from trainyard.workload.plain import mapping


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """What an operator asks of one kind."""

    field: str
    """The map of replica types under `spec`."""
    types: tuple[str, ...]
    container: str = ""
    """The container that each replica must have; empty where it may have any name."""
    any_case: bool = False
    """True where a replica type may be written in any case."""
    restart_policies: tuple[str, ...] = ("Always", "ExitCode", "Never", "OnFailure")


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica type of a job."""

    type: str
    """As the operator calls it: Master, Worker, Launcher."""
    spot: Spot
    data: Mapping[Any, Any]

    @property
    def pod(self) -> Spot:
        """The spec of its pods."""
        return self.spot.below("template", "spec")


_KINDS: Mapping[str, OperatorKind] = {
    "kubeflow.org/v1/PyTorchJob": OperatorKind("pytorchReplicaSpecs", ("Master", "Worker"), "pytorch"),
    "kubeflow.org/v1/TFJob": OperatorKind(
        "tfReplicaSpecs", ("Chief", "Master", "Worker", "PS", "Evaluator"), "tensorflow", any_case=True
    ),
    "kubeflow.org/v1/XGBoostJob": OperatorKind("xgbReplicaSpecs", ("Master", "Worker"), "xgboost"),
    "kubeflow.org/v1/PaddleJob": OperatorKind("paddleReplicaSpecs", ("Master", "Worker"), "paddle"),
    "kubeflow.org/v1/JAXJob": OperatorKind("jaxReplicaSpecs", ("Worker",), "jax"),
    "kubeflow.org/v1/MPIJob": OperatorKind("mpiReplicaSpecs", ("Launcher", "Worker"), any_case=True),
    "kubeflow.org/v2beta1/MPIJob": OperatorKind(
        "mpiReplicaSpecs", ("Launcher", "Worker"), any_case=True, restart_policies=("Never", "OnFailure")
    ),
}


def operator_kind(item: Object) -> OperatorKind | None:
    """What is asked of an object's kind; None where no operator of Kubeflow runs it."""
    return _KINDS.get(f"{item.api_version}/{item.kind}")


def of_training_operator(item: Object) -> bool:
    """Whether the training operator (kubeflow.org/v1) runs the object."""
    return item.api_version == "kubeflow.org/v1" and operator_kind(item) is not None


def replicas(item: Object) -> Iterator[Replica]:
    """The replica types of an object that its operator knows, in the order of the manifest."""
    kind = operator_kind(item)
    if kind is None:
        return
    for key, data in part(item.at("spec", kind.field)).items():
        name = known_type(kind, key)
        if name:
            yield Replica(name, item.at("spec", kind.field, key), mapping(data))


def known_type(kind: OperatorKind, written: object) -> str:
    """The replica type that a key means; empty where it means none."""
    if not isinstance(written, str):
        return ""
    same = (each for each in kind.types if each == written or (kind.any_case and each.lower() == written.lower()))
    return next(same, "")
