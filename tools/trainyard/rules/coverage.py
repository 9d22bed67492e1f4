"""Which training jobs no rule can judge yet."""

from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.objects import Object
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import adapter

_TRAINING = {
    "batch.volcano.sh": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("JAXJob", "MPIJob", "PaddleJob", "XGBoostJob"),
    "ray.io": ("RayCluster", "RayJob", "RayService"),
    "trainer.kubeflow.org": ("ClusterTrainingRuntime", "TrainingRuntime", "TrainJob"),
}


@rule("SCH004", "kind-without-rules", Severity.INFO, needs=Object)
def kind_without_rules(rendered: Object) -> Iterator[Problem]:
    """A training job of a kind whose pods no rule knows yet.

    Its fields are checked against their schema. What its pods would do, from rendezvous to batch, is not judged.

    Bad:
        # whole
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train}
    Good:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: train}
    Near miss:
        # whole
        apiVersion: example.com/v1
        kind: JobSet
        metadata: {name: train}

    Source: tools/trainyard/workload/adapters.py
    """
    if rendered.kind in _TRAINING.get(rendered.group, ()) and adapter(rendered) is None:
        yield Problem(
            f"only the schema of this {rendered.kind} was checked: no rule knows the pods of its kind yet",
            rendered.at("kind"),
            help="tools/verify-jobs asks a real API server about it",
        )
