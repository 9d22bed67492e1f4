"""The kinds that a policy may judge, and where each holds its pods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, as matchConstraints name it."""

    name: str
    group: str
    version: str
    plural: str
    templates: str = "[]"
    """CEL: the pod templates of an object of the kind."""


def _replicas(field: str) -> str:
    return f"variables.spec.?{field}.orValue({{}}).map(r, variables.spec.{field}[r].?template.orValue({{}}))"


def _ray(cluster: str) -> str:
    return (
        f"[{cluster}.?headGroupSpec.?template.orValue({{}})] + "
        f"{cluster}.?workerGroupSpecs.orValue([]).map(g, g.?template.orValue({{}}))"
    )


CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps")
JOB = Kind("Job", "batch", "v1", "jobs", "[variables.spec.template]")
JOB_SET = Kind(
    "JobSet",
    "jobset.x-k8s.io",
    "v1alpha2",
    "jobsets",
    "variables.spec.?replicatedJobs.orValue([]).map(j, j.?template.?spec.?template.orValue({}))",
)
PYTORCH_JOB = Kind("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", _replicas("pytorchReplicaSpecs"))
TF_JOB = Kind("TFJob", "kubeflow.org", "v1", "tfjobs", _replicas("tfReplicaSpecs"))
MPI_JOB = Kind("MPIJob", "kubeflow.org", "v2beta1", "mpijobs", _replicas("mpiReplicaSpecs"))
RAY_CLUSTER = Kind("RayCluster", "ray.io", "v1", "rayclusters", _ray("variables.spec"))
RAY_JOB = Kind("RayJob", "ray.io", "v1", "rayjobs", _ray("variables.spec.?rayClusterSpec"))
TRAIN_JOB = Kind(
    "TrainJob",
    "trainer.kubeflow.org",
    "v1alpha1",
    "trainjobs",
    "[{'spec': {'containers': [variables.spec.?trainer.orValue({})]}}]",
)
"""Its trainer stands for a container: it has the image and the variables of one. Its JobSet is judged as one."""

OPERATOR_JOBS = (PYTORCH_JOB, TF_JOB, MPI_JOB)
NOT_RAY = (JOB, JOB_SET, *OPERATOR_JOBS)
POD_TEMPLATES = (*NOT_RAY, RAY_CLUSTER, RAY_JOB)
"""Kinds whose pod templates are whole."""
