"""What the API server refuses of a batch Job, or of the Jobs that a JobSet makes: JOB001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import Remedy, put, remove
from trainyard.rules.common.jobspecs import JobSpec, job_specs
from trainyard.rules.common.parts import either, integer, items, part, word
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import digits, sequence, text

_POLICIES = ("Never", "OnFailure")
_OF_INDICES = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_COUNTS = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "ttlSecondsAfterFinished",
)
_MOST = {"activeDeadlineSeconds": 2**63 - 1}
"""What the type of a field holds; the others are of 32 bits."""
_MOST_INDEXED = 100_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
Refusal = tuple[Spot, str, str]
"""The field, what is wrong about it, and what to do."""


@rule("JOB001", "job-restart-policy", Severity.ERROR, needs=Object, fix="safe")
def job_restart_policy(item: Object) -> Iterator[Problem]:
    """A Job does not say how its pods restart, or says what no Job may.

    The default of a pod is Always, with which a Job would never end. So its template must say Never or OnFailure, and
    Never if a podFailurePolicy looks at failed pods. The API server refuses others.

    Bad:
        kind: Job
        spec: {template: {spec: {restartPolicy: Always}}}
    Good:
        kind: Job
        spec: {template: {spec: {restartPolicy: OnFailure}}}
    Near miss:
        # whole
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: sft}
        spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: []}}}}}]}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#handling-pod-and-container-failures
    """
    for job in job_specs(item):
        spot, policy = job.pod.below("restartPolicy"), job.restart_policy
        looks = part(job.spot.below("podFailurePolicy"))
        if not part(job.pod):
            continue
        if policy not in _POLICIES:
            said = f"restartPolicy is {policy}" if policy else "restartPolicy is not set, and Always by default"
            yield Problem(f"{said}: a Job takes Never or OnFailure", spot, help="write Never", fix=put(spot, "Never"))
        elif looks and policy != "Never":
            yield Problem(
                f"restartPolicy is {policy}, and podFailurePolicy takes Never alone",
                spot,
                (job.spot.below("podFailurePolicy").saying("looks at failed pods"),),
                "write Never, or leave podFailurePolicy out",
                put(spot, "Never").saying("write Never").unsafe(),
            )


@rule("JOB002", "pod-failure-policy-refused", Severity.ERROR, needs=Object, fix="safe")
def pod_failure_policy_refused(item: Object) -> Iterator[Problem]:
    """A podFailurePolicy breaks the rules of the API server, which refuses the Job.

    Each rule looks at exit codes or at conditions, not both. Codes are sorted, unique, and never 0 for In. A container
    that it names must be in the pod. FailIndex needs backoffLimitPerIndex.

    Bad:
        kind: Job
        spec:
          podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [143, 137]}}]}
    Good:
        kind: Job
        spec:
          podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [137, 143]}}]}
    Near miss:
        kind: Job
        spec:
          podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    """
    for job in job_specs(item):
        if part(job.spot.below("podFailurePolicy")):
            replacement = job.spot.below("podReplacementPolicy")
            if word(replacement) not in ("", "Failed"):
                yield Problem(
                    f"podReplacementPolicy is {word(replacement)}, but with a podFailurePolicy it must be Failed",
                    replacement,
                    help="leave it out",
                    fix=remove(replacement),
                )
        for spot, _ in items(job.spot.below("podFailurePolicy", "rules")):
            for where, said, help in _failure_rule(job, spot):
                yield Problem(said, where, help=help, fix=_codes_in_order(where))


@rule("JOB003", "index-needed", Severity.ERROR, needs=Object, fix="safe")
def index_needed(item: Object) -> Iterator[Problem]:
    """A Job counts or names its indices, and has none.

    backoffLimitPerIndex, maxFailedIndexes and successPolicy are for Jobs with completionMode Indexed, and an Indexed
    Job that says its parallelism says its completions. The API server refuses other combinations.

    Bad:
        kind: Job
        spec: {completionMode: NonIndexed, successPolicy: {rules: [{succeededCount: 1}]}}
    Good:
        kind: Job
        spec: {successPolicy: {rules: [{succeededIndexes: "0"}]}}
    Near miss:
        # on: jobset
        spec: {replicatedJobs: [{name: node, template: {spec: {backoffLimitPerIndex: 1}}}]}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    """
    for job in job_specs(item):
        fields = [name for name in _OF_INDICES if value_at(job.spot.below(name)) is not None]
        if fields and not job.indexed:
            first, *others = (job.spot.below(name) for name in fields)
            said = f"{' and '.join(fields)} need{'s' * (len(fields) == 1)} completionMode Indexed"
            yield Problem(said, first, tuple(others), "set completionMode: Indexed", _indexed(job))
        written = word(job.spot.below("completionMode")) == "Indexed"
        is_counted = value_at(job.spot.below("parallelism")) is not None  # without either, both are filled in as 1
        if written and is_counted and not job.in_runtime and value_at(job.spot.below("completions")) is None:
            spot = job.spot.below("completionMode")
            message = "an Indexed Job with a parallelism must say its completions"
            yield Problem(message, spot, help="set completions to its pods")
        failed = job.spot.below("maxFailedIndexes")
        if value_at(failed) is not None and value_at(job.spot.below("backoffLimitPerIndex")) is None:
            yield Problem("maxFailedIndexes needs backoffLimitPerIndex", failed, help="set both or none")


@rule("JOB004", "success-policy-refused", Severity.ERROR, needs=Object)
def success_policy_refused(item: Object) -> Iterator[Problem]:
    """A successPolicy asks for pods that the Job does not have.

    It names indices below `completions`, or a number of them that is no larger. The API server refuses others, and a
    rule that says neither.

    Bad:
        kind: Job
        spec: {successPolicy: {rules: [{succeededIndexes: "4"}]}}
    Good:
        kind: Job
        spec: {successPolicy: {rules: [{succeededIndexes: "0-3"}]}}
    Near miss:
        kind: Job
        spec: {successPolicy: {rules: [{succeededIndexes: "0,2", succeededCount: 1}]}}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy
    """
    for job in job_specs(item):
        pods = integer(job.spot.below("completions"))
        for spot, data in items(job.spot.below("successPolicy", "rules")):
            named, asked = spot.below("succeededIndexes"), integer(spot.below("succeededCount"))
            last = _last_index(word(named))
            if not data.keys() & {"succeededIndexes", "succeededCount"}:
                help = "set succeededIndexes or succeededCount"
                yield Problem("the rule says neither which nor how many indices succeed", spot, help=help)
            elif pods is not None and last is not None and last >= pods:
                help = f"name indices from 0 to {pods - 1}"
                yield Problem(f"index {last} does not exist: the Job has {pods} completions", named, help=help)
            elif pods is not None and asked is not None and asked > pods:
                where = spot.below("succeededCount")
                yield Problem(
                    f"{asked} indices cannot succeed: the Job has {pods} completions", where, help="ask for less"
                )


@rule("JOB005", "job-count-refused", Severity.ERROR, needs=Object)
def job_count_refused(item: Object) -> Iterator[Problem]:
    """A count of a Job is negative, or larger than its field or the API server takes.

    Counts are numbers of 32 bits. An Indexed Job has at most 100000 pods at once, and at most `completions` of its
    indices may fail.

    Bad:
        kind: Job
        spec: {parallelism: -2}
    Bad:
        kind: Job
        spec: {backoffLimit: 3000000000}
    Good:
        kind: Job
        spec: {parallelism: 4, backoffLimit: 0}
    Near miss:
        kind: Job
        spec: {activeDeadlineSeconds: 3000000000}

    Source: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/batch/validation/validation.go
    """
    for job in job_specs(item):
        for name in _COUNTS:
            spot, most = job.spot.below(name), _MOST.get(name, 2**31 - 1)
            count = integer(spot)
            if name == "parallelism" and job.indexed:
                most = _MOST_INDEXED
            if name == "maxFailedIndexes":
                most = min(most, integer(job.spot.below("completions")) or most)
            if count is not None and not 0 <= count <= most:
                yield Problem(f"{name} is {count}, but must be from 0 to {most}", spot, help="correct the number")


def _indexed(job: JobSpec) -> Remedy | None:
    """Indices give the pods other names, but without them the API server refuses the Job."""
    return put(job.spot.below("completionMode"), "Indexed") if integer(job.spot.below("completions")) else None


def _codes_in_order(spot: Spot) -> Remedy | None:
    """The same exit codes, sorted and each once, where that is what is wrong."""
    codes = value_at(spot) if spot.path[-1:] == ("values",) else None
    if not isinstance(codes, list) or not codes or not all(type(code) is int for code in codes) or 0 in codes:
        return None
    return put(spot, sorted(set(codes))) if codes != sorted(set(codes)) else None


def _failure_rule(job: JobSpec, spot: Spot) -> Iterator[Refusal]:
    data, codes = part(spot), spot.below("onExitCodes")
    looks = [name for name in ("onExitCodes", "onPodConditions") if data.get(name)]
    if len(looks) != 1:
        yield spot, "a rule looks at onExitCodes or at onPodConditions, and at one of them", "make two rules of it"
    action = text(data.get("action"))
    if action not in _ACTIONS:
        yield (
            spot.below("action"),
            f"{action or 'nothing'} is not an action of a podFailurePolicy",
            f"use {either(_ACTIONS)}",
        )
    if action == "FailIndex" and value_at(job.spot.below("backoffLimitPerIndex")) is None:
        yield spot.below("action"), "FailIndex needs backoffLimitPerIndex", "use FailJob, or set backoffLimitPerIndex"
    if not isinstance(data.get("onExitCodes"), dict):
        return
    named, known = word(codes.below("containerName")), _containers(job)
    if named and known and named not in known:
        help = f"name {either(sorted(known))}"
        yield codes.below("containerName"), f"the pod has no container {named}", help
    yield from _exit_codes(codes)


def _exit_codes(codes: Spot) -> Iterator[Refusal]:
    values = [code for code in sequence(value_at(codes.below("values"))) if isinstance(code, int)]
    operator = word(codes.below("operator"))
    if operator not in ("In", "NotIn"):
        yield codes.below("operator"), f"{operator or 'nothing'} is not an operator", "use In or NotIn"
    if operator == "In" and 0 in values:
        yield codes.below("values"), "code 0 is success, and In may not list it", "leave 0 out"
    if values != sorted(set(values)):
        yield codes.below("values"), "exit codes must be sorted and unique", "sort them"
    if not values:
        yield codes.below("values"), "a rule on exit codes must list at least one", "list the codes"


def _containers(job: JobSpec) -> set[str]:
    return {
        text(data.get("name")) for field in ("containers", "initContainers") for _, data in items(job.pod.below(field))
    }


def _last_index(named: str) -> int | None:
    """The largest index of `0,2-5`; None for what is no such list."""
    parts = [digits(piece) for item in named.split(",") for piece in item.split("-")]
    numbers = [part for part in parts if part is not None]
    return max(numbers) if len(numbers) == len(parts) else None
