"""What Kubeflow's operators ask of the replicas of a job: OPR001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put, remove, rename
from trainyard.rules.common.once import once
from trainyard.rules.common.operator_kinds import known_type, operator_kind, replicas
from trainyard.rules.common.parts import either, integer, items, part
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import text

_ALONE = ("Chief", "Launcher", "Master")


@rule("OPR001", "operator-container-missing", Severity.ERROR, needs=Object, fix="safe")
@once
def operator_container_missing(item: Object) -> Iterator[Problem]:
    """No container of a replica has the name that its operator looks for.

    The training operator sets the variables and the port of the rendezvous in the container that it knows by name:
    pytorch, tensorflow, xgboost, paddle or jax. It refuses a job without one since version 1.8, and before that its
    pods started and knew nothing of each other.

    Bad:
        # on: tfjob
        spec:
          tfReplicaSpecs: {Worker: {template: {spec: {containers: {$replace: [{name: trainer, image: ranker}]}}}}}
    Good:
        # on: tfjob
        spec:
          tfReplicaSpecs: {Worker: {template: {spec: {containers: {$replace: [{name: tensorflow, image: ranker}]}}}}}
    Near miss:
        # on: mpijob
        spec:
          mpiReplicaSpecs: {Worker: {template: {spec: {containers: {$replace: [{name: trainer, image: ranker}]}}}}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/webhooks/tensorflow/tfjob_webhook.go
    """
    kind = operator_kind(item)
    for replica in replicas(item) if kind is not None and kind.container else ():
        containers = list(items(replica.pod.below("containers")))
        names = [text(data.get("name")) for _, data in containers]
        if kind is not None and all(names) and names and kind.container not in names:
            spot = containers[0][0].below("name") if len(names) == 1 else replica.pod.below("containers")
            yield Problem(
                f"no container is named {kind.container}, and the operator of {item.kind}s sets up no other",
                spot.saying(f"must be {kind.container}"),
                help=f"call the container that trains {kind.container}",
                fix=put(spot, kind.container) if len(names) == 1 else None,
            )


_LISTS = {("jobset.x-k8s.io", "JobSet"): "replicatedJobs", ("batch.volcano.sh", "Job"): "tasks"}
"""Where other jobs than those of operator_kind list what they make pods of."""


@rule("OPR002", "replica-type-unknown", Severity.ERROR, needs=Object, fix="safe")
def replica_type_unknown(item: Object) -> Iterator[Problem]:
    """A job has a replica type that its operator does not know, or two that exclude each other, or none.

    The operator refuses it, or makes pods that no other pod is told of. A PyTorchJob has Master and Worker, a TFJob has
    at most one of Chief and Master, an MPIJob starts from a Launcher. A job without any makes no pods, and some
    operators take it.

    Bad:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {$replace: {Chief: {replicas: 1}, Worker: {replicas: 3}}}}
    Bad:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {$replace: {Master: {replicas: 1}, workers: {replicas: 3}}}}
    Bad:
        # on: jobset
        spec: {replicatedJobs: {$replace: []}}
    Good:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {$replace: {Master: {replicas: 1}, Worker: {replicas: 3}}}}
    Near miss:
        # on: tfjob
        spec: {tfReplicaSpecs: {$replace: {chief: {replicas: 1}, ps: {replicas: 1}, worker: {replicas: 3}}}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/webhooks/pytorch/pytorchjob_webhook.go
    """
    kind = operator_kind(item)
    field = _LISTS.get((item.group, item.kind)) if kind is None else kind.field
    is_told = item.data.get("spec", {}) is not None  # else SCH009 says that it is empty
    if field is not None and is_told and not value_at(item.at("spec", field)):
        help = "say there which pods it makes"
        yield Problem(f"the {item.kind} has no {field}, so it makes no pods", item.at("spec", field), help=help)
    if kind is None:
        return
    spot = item.at("spec", kind.field)
    for key in part(spot):
        if isinstance(key, str) and not known_type(kind, key):
            help = f"{item.kind}s have {either(kind.types)}"
            near = next((each for each in kind.types if each.lower() == key.lower().removesuffix("s")), None)
            fix = None if near is None else rename(spot.below(key), near).saying(f"call it {near}")
            yield Problem(f"{key} is not a replica type of a {item.kind}", spot.below(key), help=help, fix=fix)
    found = {replica.type: replica.spot for replica in replicas(item)}
    if "Chief" in found and "Master" in found:
        related = (found["Chief"].saying("leads already"),)
        help = "leave one of them out"
        yield Problem(
            "the TFJob has a Chief and a Master, but one replica alone may lead", found["Master"], related, help
        )
    if found and "Launcher" in kind.types and "Launcher" not in found:
        yield Problem("the MPIJob has no Launcher, which would start its ranks", spot, help="add a Launcher")


@rule("OPR003", "replica-count-refused", Severity.ERROR, needs=Object, fix="safe")
def replica_count_refused(item: Object) -> Iterator[Problem]:
    """A replica type has a number of pods that its operator does not take.

    One pod leads: Master, Chief and Launcher are one, and a PyTorchJob must say so, since its check sees no default. A
    Worker has at least one pod.

    Bad:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {Master: {replicas: 2}, Worker: {replicas: 2}}}
    Bad:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {Master: {replicas: null, restartPolicy: Never}, Worker: {replicas: 2}}}
    Good:
        # on: pytorchjob
        spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}}
    Near miss:
        # on: tfjob
        spec: {tfReplicaSpecs: {Chief: {replicas: null}, Worker: {replicas: 3}}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/webhooks/pytorch/pytorchjob_webhook.go
    """
    for replica in replicas(item):
        spot = replica.spot.below("replicas")
        count = integer(spot)
        if count is None and value_at(spot) is None and (item.kind, replica.type) == ("PyTorchJob", "Master"):
            yield Problem(
                "the Master does not say that it has 1 pod, and the operator refuses it", spot, (), _ONE, put(spot, 1)
            )
        elif count is not None and count != 1 and replica.type in _ALONE:
            yield Problem(
                f"the {replica.type} has {count} pods, but must have 1", spot, (), _ONE, put(spot, 1).unsafe()
            )
        elif count is not None and count < 1 and replica.type == "Worker":
            help = "ask for at least 1, or leave Worker out"
            yield Problem(f"Worker has {count} pods, but must have at least 1", spot, help=help)


_ONE = "write replicas: 1"


@rule("OPR004", "elastic-policy-refused", Severity.ERROR, needs=Object, fix="safe")
def elastic_policy_refused(item: Object) -> Iterator[Problem]:
    """The elastic policy of a PyTorchJob cannot hold.

    Elastic ranks meet at the first Worker, so there must be one. The number of ranks a pod is said once: in
    `nprocPerNode`, which replaced the field of the policy. And the bounds must leave room.

    Bad:
        # on: pytorchjob
        spec: {nprocPerNode: "8", elasticPolicy: {minReplicas: 2, maxReplicas: 4, nProcPerNode: 8}}
    Good:
        # on: pytorchjob
        spec: {nprocPerNode: "8", elasticPolicy: {minReplicas: 2, maxReplicas: 4}}
    Near miss:
        # on: pytorchjob
        spec: {elasticPolicy: {minReplicas: 2, maxReplicas: 4, nProcPerNode: 8}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/webhooks/pytorch/pytorchjob_webhook.go
    """
    policy = item.at("spec", "elasticPolicy")
    if operator_kind(item) is None or item.kind != "PyTorchJob" or not part(policy):
        return
    if not any(replica.type == "Worker" for replica in replicas(item)):
        help = "make all pods Workers: an elastic job needs no Master"
        yield Problem("an elastic PyTorchJob needs Workers, and this one has none", policy, help=help)
    outer = item.at("spec", "nprocPerNode")
    if value_at(policy.below("nProcPerNode")) is not None and value_at(outer) is not None:
        related = (outer.saying("says it too"),)
        help = "leave the older field out"
        yield Problem(
            "the number of ranks per pod is given twice, which the operator refuses",
            policy.below("nProcPerNode"),
            related,
            help,
            remove(policy.below("nProcPerNode")),
        )
    least, most = integer(policy.below("minReplicas")), integer(policy.below("maxReplicas"))
    if least is not None and most is not None and least > most:
        related = (policy.below("maxReplicas").saying("the most"),)
        help = "swap them, or make them equal"
        yield Problem(
            f"at least {least} pods shall run, but at most {most}", policy.below("minReplicas"), related, help
        )
