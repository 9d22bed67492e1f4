"""What is left of a run to read: LOG001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.objects.unit import Unit
from trainyard.rules.common.operator_kinds import of_training_operator, replicas
from trainyard.rules.common.operator_releases import training_operator
from trainyard.rules.common.parts import integer, word
from trainyard.rules.registry import Problem, rule

_KEEPS_FAILED_PODS = (1, 9, 4)


@rule("LOG001", "finished-pods-removed", Severity.WARNING, needs=Object, fix="safe")
def finished_pods_removed(item: Object) -> Iterator[Problem]:
    """The pods of a job, and with them its logs, are deleted as soon as it ends.

    With cleanPodPolicy All the training operator deletes finished pods too, those that failed included. kubectl has
    nothing to show then, and the reason of a failure is gone unless a collector had read it.

    Bad:
        # on: pytorchjob
        spec: {runPolicy: {cleanPodPolicy: All}}
    Good:
        # on: pytorchjob
        spec: {runPolicy: {cleanPodPolicy: Running}}
    Near miss:
        # on: mpijob
        spec: {runPolicy: {cleanPodPolicy: All}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go
    """
    older = item.at("spec", "cleanPodPolicy")
    for spot in (item.at("spec", "runPolicy", "cleanPodPolicy"), *((older,) if item.kind == "MPIJob" else ())):
        if of_training_operator(item) and word(spot) == "All":
            yield Problem(
                "finished pods are deleted at once, and their logs with them",
                spot.saying("failed pods too"),
                help="use Running, which stops what still runs and keeps what ended",
                fix=put(spot, "Running"),
            )


@rule("LOG002", "failed-pods-removed", Severity.WARNING, needs=Unit)
def failed_pods_removed(unit: Unit) -> Iterator[Problem]:
    """The pods of a job that fails for good are deleted, whatever its cleanPodPolicy says.

    The training operator looks at the policy of finished jobs only. Up to version 1.9.3 it deletes the pods first and
    marks the job as failed then, when backoffLimit or activeDeadlineSeconds is exceeded: no log is left to read.

    Bad:
        # on: pytorchjob
        spec:
          runPolicy: {cleanPodPolicy: Running, activeDeadlineSeconds: 3600}
          pytorchReplicaSpecs: {Master: {restartPolicy: Never}, Worker: {restartPolicy: Never}}
        ---
        apiVersion: argoproj.io/v1alpha1
        kind: Application
        metadata: {name: training-operator}
        spec: {source: {repoURL: "https://github.com/kubeflow/training-operator.git", targetRevision: v1.8.1}}
    Good:
        # on: pytorchjob
        spec:
          runPolicy: {cleanPodPolicy: Running, activeDeadlineSeconds: 3600}
          pytorchReplicaSpecs: {Master: {restartPolicy: Never}, Worker: {restartPolicy: Never}}
        ---
        apiVersion: argoproj.io/v1alpha1
        kind: Application
        metadata: {name: training-operator}
        spec: {source: {repoURL: "https://github.com/kubeflow/training-operator.git", targetRevision: v1.9.4}}
    Near miss:
        # on: pytorchjob
        spec:
          runPolicy: {cleanPodPolicy: Running, backoffLimit: 3}
          pytorchReplicaSpecs: {Master: {restartPolicy: Never}, Worker: {restartPolicy: Never}}
        ---
        apiVersion: argoproj.io/v1alpha1
        kind: Application
        metadata: {name: training-operator}
        spec: {source: {repoURL: "https://github.com/kubeflow/training-operator.git", targetRevision: v1.8.1}}

    Source: https://github.com/kubeflow/trainer/issues/3419
    """
    old = next((release for release in training_operator(unit) if release.version < _KEEPS_FAILED_PODS), None)
    for item in unit.objects if old is not None else ():
        policy = item.at("spec", "runPolicy")
        field = _ends_by(item)
        if old is not None and field and word(policy.below("cleanPodPolicy")) in ("None", "Running"):
            yield Problem(
                f"training operator {old.name} deletes the pods when {field} is exceeded, failed ones included",
                policy.below(field).saying("then all pods go"),
                (policy.below("cleanPodPolicy").saying("is not looked at"), old.spot.saying("mended in v1.9.4")),
                "install v1.9.4 or later, or collect the logs",
            )


def _ends_by(item: Object) -> str:
    """The limit that ends a job of the training operator; empty where none can."""
    policy = item.at("spec", "runPolicy")
    if not of_training_operator(item):
        return ""
    restarts = any(word(replica.spot.below("restartPolicy")) != "Never" for replica in replicas(item))
    if restarts and integer(policy.below("backoffLimit")) is not None:
        return "backoffLimit"
    return "activeDeadlineSeconds" if integer(policy.below("activeDeadlineSeconds")) is not None else ""
