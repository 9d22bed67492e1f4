"""Jobs that Kueue may start smaller or let grow: QUE004 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.jobspecs import job_specs
from trainyard.rules.common.parts import integer, pairs
from trainyard.rules.common.starts import nodes, one_world, starts
from trainyard.rules.queues.kueue import ELASTIC
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import digits

_LEAST = "kueue.x-k8s.io/job-min-parallelism"
_EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
_MAY_GROW = ("batch/v1/Job", "ray.io/v1/RayCluster", "ray.io/v1/RayJob", "ray.io/v1/RayService")


@rule("QUE004", "partial-start-refused", Severity.ERROR, needs=Object)
def partial_start_refused(item: Object) -> Iterator[Problem]:
    """What a Job says of starting with fewer pods cannot hold.

    The least number of pods is below `parallelism` and above 0. Completions follow parallelism only in an Indexed Job
    where both are equal. An elastic job takes neither. Kueue refuses others.

    Bad:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: "4"}}
        spec: {completions: 4, parallelism: 4}
    Good:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}}
        spec: {completions: 4, parallelism: 4}
    Near miss:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: "false"}}
        spec: {completionMode: NonIndexed}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission
    """
    told = item.at("metadata", "annotations")
    least, equal = pairs(told).get(_LEAST), pairs(told).get(_EQUAL)
    for job in job_specs(item) if (item.group, item.kind) == ("batch", "Job") else ():
        if least is not None and not 0 < (digits(least) or 0) < job.pods:
            help = f"use 1 to {job.pods - 1}" if job.pods > 1 else "leave it out"
            yield Problem(f"{least} is not between 0 and the {job.pods} pods of the Job", told.below(_LEAST), help=help)
        elif least is not None and pairs(told).get(ELASTIC) == "true":
            yield Problem("an elastic job cannot start partly", told.below(_LEAST), help="leave one of them out")
        if equal == "true" and not job.indexed:
            yield Problem("completions follow parallelism in Indexed Jobs alone", told.below(_EQUAL), help="remove it")
        elif equal == "true" and (integer(job.spot.below("completions")) or 1) != job.pods:
            spot = job.spot.below("completions")
            yield Problem("completions must equal parallelism", spot, (told.below(_EQUAL),), "make them equal")


@rule("QUE005", "world-may-shrink", Severity.WARNING, needs=Workload)
def world_may_shrink(workload: Workload) -> Iterator[Problem]:
    """Kueue may start a Job with fewer pods than its ranks wait for.

    With job-min-parallelism Kueue lowers the parallelism of a Job until it fits. The number of nodes on the launch line
    stays: the pods that were started hold their GPUs and wait for peers that do not come.

    Bad:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}}
    Good:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}}
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: PET_NNODES, value: "2:4"}]}]}}}
    Near miss:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/elastic-job: "false"}}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission
    """
    told = workload.object.at("metadata", "annotations")
    if (workload.object.group, workload.object.kind) != ("batch", "Job") or not pairs(told).get(_LEAST):
        return
    for start in starts(workload) if one_world(workload) else ():
        size = nodes(start.launch)
        if size is not None and size.value[0] == size.value[1] > 1:
            yield Problem(
                f"the Job may start with {pairs(told)[_LEAST]} pods, but its ranks wait for {size.value[1]} nodes",
                told.below(_LEAST),
                (size.spot.saying("does not shrink"),),
                "remove the annotation, or make the number of nodes a range",
            )


@rule("QUE006", "elastic-kind-refused", Severity.ERROR, needs=Object)
def elastic_kind_refused(item: Object) -> Iterator[Problem]:
    """A job of a kind that cannot change its size is marked as elastic.

    Kueue grows and shrinks Jobs, RayClusters, RayJobs and RayServices, and refuses the annotation on others. An elastic
    Job may not ask for a topology, except for none.

    Bad:
        # on: jobset
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}, annotations: {kueue.x-k8s.io/elastic-job: "true"}}
    Good:
        kind: Job
        metadata:
          labels: {kueue.x-k8s.io/queue-name: research}
          annotations: {kueue.x-k8s.io/elastic-job: "true"}
    Near miss:
        # on: jobset
        metadata:
          labels: {kueue.x-k8s.io/queue-name: research}
          annotations: {kueue.x-k8s.io/elastic-job: "false"}

    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/controller/jobframework/validation.go
    """
    told = item.at("metadata", "annotations")
    if pairs(told).get(ELASTIC) != "true":
        return
    if f"{item.api_version}/{item.kind}" not in _MAY_GROW:
        yield Problem(f"Kueue refuses an elastic {item.kind}", told.below(ELASTIC), help="remove the annotation")
    elif item.kind == "Job":
        asked = item.at("spec", "template", "metadata", "annotations")
        for key in ("kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"):
            if key in pairs(asked):
                related = (told.below(ELASTIC),)
                yield Problem("an elastic Job takes no topology", asked.below(key), related, "remove one of them")
