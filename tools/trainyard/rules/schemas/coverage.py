"""Which training jobs no rule can judge, or not yet."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import adapter
from trainyard.workload.model import Workload
from trainyard.workload.trainjob import runtime, runtime_name

_TRAINING = {
    "batch.volcano.sh": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"),
    "ray.io": ("RayCluster", "RayJob", "RayService"),
    "trainer.kubeflow.org": ("TrainJob",),
}


@rule("SCH004", "kind-without-rules", Severity.INFO, needs=Object)
def kind_without_rules(rendered: Object) -> Iterator[Problem]:
    """A training job of a kind, or of a version of its kind, whose pods no rule knows.

    Its fields are checked against their schema. What its pods would do, from rendezvous to batch, is not judged.

    Bad:
        # whole
        apiVersion: kubeflow.org/v1beta2
        kind: PyTorchJob
        metadata: {name: train}
    Good:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: train}
    Near miss:
        # whole
        apiVersion: example.com/v1
        kind: XGBoostJob
        metadata: {name: train}

    Source: tools/trainyard/workload/adapters.py
    """
    if rendered.kind in _TRAINING.get(rendered.group, ()) and adapter(rendered) is None:
        yield Problem(
            f"only the schema of this {rendered.kind} was checked: no rule knows the pods of its kind",
            rendered.at("kind"),
            help="tools/verify-jobs asks a real API server about it",
        )


@rule("SCH005", "runtime-missing", Severity.ERROR, needs=Workload)
def runtime_missing(workload: Workload) -> Iterator[Problem]:
    """A TrainJob of a job folder names a runtime that its cluster does not have.

    The runtime holds the pods of a TrainJob. Kubeflow Trainer refuses a TrainJob whose runtime is not there when it is
    created. Runtimes belong to the cluster, under `clusters/<name>/platform`.

    Bad:
        $platform: true
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch-rdma}
        ---
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: llama-sft-2, namespace: research}
        spec: {runtimeRef: {name: torch-roce}}
    Good:
        $platform: true
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch-rdma}
        ---
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: llama-sft-2, namespace: research}
        spec: {runtimeRef: {name: torch-rdma}}
    Near miss:
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: llama-sft-2, namespace: research}
        spec: {runtimeRef: {name: torch-roce}}

    Source: https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/
    """
    kind, name = _missing_runtime(workload)
    if name and workload.in_job_folder and workload.platform is not None:
        there = sorted({item.name for item in workload.of_cluster(kind)})
        cluster = "the job's cluster" if workload.cluster is None else f"cluster {workload.cluster.name}"
        yield Problem(
            f"{cluster} has no {kind} {name}",
            workload.object.at("spec", "runtimeRef", "name", label="no such runtime"),
            help=f"use {' or '.join(there)}" if there else "add it under clusters/<name>/platform",
        )


@rule("SCH006", "runtime-not-shown", Severity.INFO, needs=Workload)
def runtime_not_shown(workload: Workload) -> Iterator[Problem]:
    """The runtime of a TrainJob is not among the manifests, so nothing is known of its pods.

    Only the fields of the TrainJob itself are checked, against their schema.

    Bad:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: train}
        spec: {runtimeRef: {name: torch-distributed}}
    Good:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch-distributed}
        spec:
          mlPolicy: {torch: {}}
          template: {spec: {replicatedJobs: []}}
        ---
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: train}
        spec: {runtimeRef: {name: torch-distributed}}
    Near miss:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch-distributed}
        spec: {template: {spec: {replicatedJobs: []}}}

    Source: https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/
    """
    kind, name = _missing_runtime(workload)
    if name and not (workload.in_job_folder and workload.platform is not None):
        yield Problem(
            f"{kind} {name} is not among the manifests: nothing is known of the pods of this TrainJob",
            workload.object.at("spec", "runtimeRef", "name"),
            help="lint it together with its runtime",
        )


def _missing_runtime(workload: Workload) -> tuple[str, str]:
    """Kind and name of the runtime that a TrainJob names and that is nowhere; both empty where nothing is missing."""
    if workload.object.kind != "TrainJob" or runtime(workload.object, workload.objects) is not None:
        return "", ""
    return runtime_name(workload.object)
