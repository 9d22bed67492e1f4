"""Whether the loss of one rank restarts all of them: RST006 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.jobspecs import JobSpec, job_specs, jobset_spec
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import integer, items, word
from trainyard.rules.common.starts import one_world
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_DEFAULT_BACKOFF_LIMIT = 6
_RESTARTS = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")


@rule("RST006", "failure-policy-waits", Severity.WARNING, needs=Object, fix="safe")
@once
def failure_policy_waits(item: Object) -> Iterator[Problem]:
    """A JobSet shall restart as a whole, but its Jobs first replace failed pods one by one.

    The failure policy acts when a Job fails, and a Job fails when its backoffLimit is used up: six pods where nobody
    says otherwise. Until then one new rank after the other comes to peers that still wait for the old one.

    Bad:
        # on: jobset
        spec:
          failurePolicy: {maxRestarts: 5}
          replicatedJobs:
          - name: node
            template: {spec: {parallelism: 4, template: {spec: {restartPolicy: Never}}, backoffLimit: null}}
    Good:
        # on: jobset
        spec:
          failurePolicy: {maxRestarts: 5}
          replicatedJobs:
          - name: node
            template: {spec: {parallelism: 4, backoffLimit: 0, template: {spec: {restartPolicy: Never}}}}
    Near miss:
        # on: jobset
        spec:
          failurePolicy: {maxRestarts: 5}
          replicatedJobs:
          - name: tokenize
            template: {spec: {parallelism: 1, backoffLimit: 3, template: {spec: {restartPolicy: Never}}}}

    Source: https://jobset.sigs.k8s.io/docs/concepts/
    """
    jobset = jobset_spec(item)
    if jobset is None or not _restarts_as_a_whole(jobset):
        return
    for job in job_specs(item):
        written = integer(job.spot.below("backoffLimit"))
        limit = _DEFAULT_BACKOFF_LIMIT if written is None else written
        if limit > 0 and job.pods > 1 and not _fails_at_once(job):
            yield Problem(
                f"backoffLimit {limit} lets the Job replace its pods one by one before the JobSet restarts",
                job.spot.below("backoffLimit", label="0 restarts all ranks at the first failure"),
                (jobset.below("failurePolicy").saying("acts when a Job has failed"),),
                "set backoffLimit: 0 in the replicatedJob",
                put(job.spot.below("backoffLimit"), 0),
            )


@rule("RST007", "index-fails-alone", Severity.WARNING, needs=Workload, fix="unsafe")
def index_fails_alone(workload: Workload) -> Iterator[Problem]:
    """One rank may be given up while the others go on.

    backoffLimitPerIndex, and the action FailIndex, end one index of a Job and leave its peers. Ranks that train
    together wait for the missing one until a timeout, with all their GPUs, and each is then given up in its turn.

    Bad:
        kind: Job
        spec: {backoffLimit: null, backoffLimitPerIndex: 3}
    Good:
        kind: Job
        spec: {backoffLimit: 12}
    Near miss:
        kind: Job
        spec: {backoffLimit: null, backoffLimitPerIndex: 3, maxFailedIndexes: 0}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index
    """
    for job in job_specs(workload.object) if one_world(workload) else ():
        limit = job.spot.below("backoffLimitPerIndex")
        if integer(limit) is None or job.pods < 2 or integer(job.spot.below("maxFailedIndexes")) == 0:
            continue
        yield Problem(
            "the loss of one index leaves its peers waiting, since the Job goes on without it",
            limit.saying("counts each index alone"),
            help="use backoffLimit, or set maxFailedIndexes: 0 so that one lost index ends the Job",
            fix=put(job.spot.below("maxFailedIndexes"), 0).unsafe(),
        )


def _restarts_as_a_whole(jobset: Spot) -> bool:
    policy = jobset.below("failurePolicy")
    if word(policy.below("restartStrategy")) == "InPlaceRestart":
        return False
    always = any(data.get("action") == _RESTARTS[1] for _, data in items(policy.below("rules")))
    return always or (integer(policy.below("maxRestarts")) or 0) > 0


def _fails_at_once(job: JobSpec) -> bool:
    """Whether a policy of the Job ends it with its first failed pod."""
    rules = items(job.spot.below("podFailurePolicy", "rules"))
    return any(data.get("action") == "FailJob" for _, data in rules)
