"""Objects that mpi-operator makes beside an MPIJob, and that somebody else has made."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.made import MadeObject
from trainyard.workload.model import Workload

_MADE = (
    ("ConfigMap", "-config", "the hostfile"),
    ("Secret", "-ssh", "the ssh keys"),
    ("Service", "", "the names of the pods"),
    ("Job", "-launcher", "the launcher"),
)
"""Kind, the end of its name behind that of the MPIJob, and what it holds. Read in mpi-operator v0.8.2."""


@rule("MPI012", "operators-name-taken", Severity.ERROR, needs=Workload)
def operators_name_taken(workload: Workload) -> Iterator[Problem]:
    """An object has the name of one that mpi-operator makes for the job.

    The operator keeps its hostfile in a ConfigMap `<job>-config`, its keys in a Secret `<job>-ssh`, and needs a Service
    and a Job of its own. What has the name already is not its own: it reports ErrResourceExists, and goes no further.

    Bad:
        # on: mpijob
        metadata: {name: bench}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: bench-config, namespace: research}
        data: {ds_config.json: "{}"}
    Good:
        # on: mpijob
        metadata: {name: bench}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: bench-deepspeed, namespace: research}
        data: {ds_config.json: "{}"}
    Near miss:
        # on: mpijob
        metadata: {name: bench}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: bench-config, namespace: vision}
        data: {ds_config.json: "{}"}

    Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go
    """
    job = workload.object
    if (job.kind, job.api_version) != ("MPIJob", "kubeflow.org/v2beta1") or not job.name:
        return
    for kind, end, holds in _MADE:
        for item in workload.of_kind(kind):
            if item.name == f"{job.name}{end}" and not isinstance(item, MadeObject):
                yield Problem(
                    f"{kind} {item.name} has the name under which mpi-operator keeps {holds} of MPIJob {job.name}",
                    item.at("metadata", "name", label="the operator goes no further"),
                    (job.at("metadata", "name", label="this job"),),
                    f"call the {kind} something else",
                )
