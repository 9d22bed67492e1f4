"""Which clock a deadline runs on: that of the job, or that of each try."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.jobspecs import JobSpec, job_specs, jobset_spec
from trainyard.rules.common.parts import integer, items
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule

_DEFAULT_BACKOFF_LIMIT = 6


@rule("RST010", "deadline-of-each-try", Severity.WARNING, needs=Object)
def deadline_of_each_try(item: Object) -> Iterator[Problem]:
    """activeDeadlineSeconds stands in the pod template, where it bounds each try and not the job.

    The kubelet kills a pod at its deadline, and the Job counts a failed pod and starts another, which has the whole
    time again: the job may hold its GPUs for the deadline times the tries. A Job ends, without a retry, at the deadline
    in its own spec. Both fields have the same name.

    Bad:
        kind: Job
        spec: {backoffLimit: 4, template: {spec: {activeDeadlineSeconds: 86400}}}
    Good:
        kind: Job
        spec: {backoffLimit: 4, activeDeadlineSeconds: 86400}
    Near miss:
        kind: Job
        spec: {backoffLimit: 0, template: {spec: {activeDeadlineSeconds: 86400}}}
    Near miss:
        kind: Job
        spec: {backoffLimit: null, backoffLimitPerIndex: 0, template: {spec: {activeDeadlineSeconds: 86400}}}
    Near miss:
        kind: Job
        spec:
          backoffLimit: 4
          podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [137, 143]}}]}
          template: {spec: {activeDeadlineSeconds: 86400}}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup
    """
    for job in job_specs(item):
        deadline = job.pod.below("activeDeadlineSeconds")
        seconds = integer(deadline)
        bounded = integer(job.spot.below("activeDeadlineSeconds")) is not None
        retries = _retries(item, job)
        if seconds is None or bounded or retries is None or _may_give_up(job):
            continue
        yield Problem(
            f"each pod ends after {seconds} s and is then replaced: the job itself has no deadline",
            deadline.saying("starts anew with each pod"),
            (retries.saying("allows the pods that take its place"),),
            "move activeDeadlineSeconds to the spec of the Job, beside backoffLimit",
        )


def _retries(item: Object, job: JobSpec) -> Spot | None:
    """The field that lets the job go on after a failed pod; None where one failed pod is its end."""
    limit = job.spot.below("backoffLimit")
    per_index = job.spot.below("backoffLimitPerIndex")
    if value_at(per_index) is not None:
        limit = per_index
    allowed = integer(limit)
    if (_DEFAULT_BACKOFF_LIMIT if allowed is None else allowed) > 0:
        return limit
    jobset = jobset_spec(item)
    restarts = jobset.below("failurePolicy", "maxRestarts") if jobset is not None else None
    return restarts if restarts is not None and (integer(restarts) or 0) > 0 else None


def _may_give_up(job: JobSpec) -> bool:
    """Whether a podFailurePolicy ends the job or the index at some exit code, which may be that of a killed pod."""
    return any(
        data.get("action") in ("FailJob", "FailIndex") and data.get("onExitCodes") is not None
        for _, data in items(job.spot.below("podFailurePolicy", "rules"))
    )
