"""Under which account the launcher of an MPIJob runs: OPR005."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.unit import Unit
from trainyard.rules.common.operator_kinds import of_training_operator, replicas
from trainyard.rules.common.operator_releases import training_operator
from trainyard.rules.common.parts import word
from trainyard.rules.registry import Problem, rule

_KEEPS_ACCOUNT = (1, 8, 0)


@rule("OPR005", "launcher-account-replaced", Severity.WARNING, needs=Unit)
def launcher_account_replaced(unit: Unit) -> Iterator[Problem]:
    """The launcher of an MPIJob runs under another account than the one it names.

    The controller of kubeflow.org/v1 starts ranks through the API server, and makes an account with the rights for it.
    Up to version 1.7 it gives that account to the launcher whatever the template says, and the rights of the named one
    are missing there.

    Bad:
        # whole
        apiVersion: kubeflow.org/v1
        kind: MPIJob
        metadata: {name: allreduce}
        spec:
          mpiReplicaSpecs:
            Launcher: {template: {spec: {serviceAccountName: bucket-reader, containers: [{name: launcher}]}}}
        ---
        apiVersion: source.toolkit.fluxcd.io/v1
        kind: GitRepository
        metadata: {name: training-operator}
        spec: {url: "https://github.com/kubeflow/training-operator", ref: {tag: v1.7.0}}
    Good:
        # whole
        apiVersion: kubeflow.org/v1
        kind: MPIJob
        metadata: {name: allreduce}
        spec:
          mpiReplicaSpecs:
            Launcher: {template: {spec: {serviceAccountName: bucket-reader, containers: [{name: launcher}]}}}
        ---
        apiVersion: source.toolkit.fluxcd.io/v1
        kind: GitRepository
        metadata: {name: training-operator}
        spec: {url: "https://github.com/kubeflow/training-operator", ref: {tag: v1.8.0}}
    Near miss:
        # on: mpijob
        spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {serviceAccountName: bucket-reader}}}}}
        ---
        apiVersion: source.toolkit.fluxcd.io/v1
        kind: GitRepository
        metadata: {name: training-operator}
        spec: {url: "https://github.com/kubeflow/training-operator", ref: {tag: v1.7.0}}

    Source: https://github.com/kubeflow/trainer/blob/v1.7.0/pkg/controller.v1/mpi/mpijob_controller.go
    """
    old = next((release for release in training_operator(unit) if release.version < _KEEPS_ACCOUNT), None)
    if old is None:
        return
    for item in unit.objects:
        for replica in replicas(item) if of_training_operator(item) else ():
            account = replica.pod.below("serviceAccountName")
            if replica.type == "Launcher" and word(account):
                yield Problem(
                    f"training operator {old.name} runs the launcher as {item.name}-launcher, not as {word(account)}",
                    account.saying("not read"),
                    (old.spot.saying("keeps a named account since v1.8.0"),),
                    "install v1.8.0 or later, or use kubeflow.org/v2beta1, which needs no rights",
                )
