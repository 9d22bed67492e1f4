"""How often a job may lose pods before it is given up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.counts import whole
from trainyard.rules.common.starts import nodes, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping

_DEFAULT_BACKOFF_LIMIT = 6


@rule("RST001", "elastic-without-restarts", Severity.WARNING, needs=Workload)
def elastic_without_restarts(workload: Workload) -> Iterator[Problem]:
    """The number of nodes may change, but torchrun may not restart its ranks even once.

    An elastic job goes on after a loss by stopping all ranks and starting them again, which counts against
    `max_restarts`. torchrun's default is 0, so the first rank that fails ends the job that was made to survive it.

    Bad:
        # on: pytorchjob
        spec: {elasticPolicy: {minReplicas: 2, maxReplicas: 8}}
    Good:
        # on: pytorchjob
        spec: {elasticPolicy: {minReplicas: 2, maxReplicas: 8, maxRestarts: 10}}
    Near miss:
        # on: pytorchjob
        spec: {elasticPolicy: {minReplicas: 4, maxReplicas: 4}}

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for start in starts(workload):
        size, restarts = nodes(start.launch), start.launch.option("max_restarts")
        if start.launch.launcher != "torchrun" or size is None or restarts is None:
            continue
        least, most = size.value
        if least < most and whole(restarts.value) == 0:
            yield Problem(
                f"{least} to {most} nodes may take part, but max_restarts is 0: the first rank that fails ends the job",
                restarts.spot,
                () if restarts.spot == size.spot else (size.spot.saying("may grow and shrink"),),
                "set max_restarts (elasticPolicy.maxRestarts of a PyTorchJob) to the losses it should survive",
            )
            return


@rule("RST002", "backoff-limit-by-default", Severity.INFO, needs=Workload)
def backoff_limit_by_default(workload: Workload) -> Iterator[Problem]:
    """A Job of several pods leaves backoffLimit at its default, which one or two crashes use up.

    backoffLimit counts failed pods. When one rank fails, its peers fail with it, so a crash of n pods costs up to n.
    The default of 6 then means one or two crashes.

    Bad:
        kind: Job
        spec: {backoffLimit: null}
    Good:
        kind: Job
        spec: {backoffLimit: 40}
    Near miss:
        kind: Job
        spec: {backoffLimit: null, backoffLimitPerIndex: 10}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
    """
    spec, pods = mapping(workload.object.data.get("spec")), workload.pods
    if workload.object.group != "batch" or pods is None or 2 * pods <= _DEFAULT_BACKOFF_LIMIT:
        return
    if spec.get("backoffLimit") is None and spec.get("backoffLimitPerIndex") is None:
        yield Problem(
            f"backoffLimit is not set: {_DEFAULT_BACKOFF_LIMIT} failed pods end the job, and one crash may cost {pods}",
            workload.object.at("spec", "backoffLimit"),
            help=f"set backoffLimit to {pods} times the crashes that the job should survive",
        )
