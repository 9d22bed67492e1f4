"""Queues and priorities that are not there, and queues that take nothing: QUE011 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.parts import either, items, pairs, word, words
from trainyard.rules.common.places import value_at
from trainyard.rules.queues.kueue import FRAMEWORKS, GROUP, PRIORITY, QUEUE
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload


@rule("QUE011", "queue-missing", Severity.ERROR, needs=Workload)
def queue_missing(workload: Workload) -> Iterator[Problem]:
    """A job names a LocalQueue, or a WorkloadPriorityClass, that is not there.

    The job stays suspended for ever, and says so in the events of its Workload alone. A LocalQueue stands in the
    namespace of the job.

    Bad:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: research, namespace: research}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: reserach}}
    Good:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: research, namespace: research}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
    Near miss:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}

    Source: https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/
    """
    item = workload.object
    labels = item.at("metadata", "labels")
    if f"{item.api_version}/{item.kind}" not in FRAMEWORKS:
        return
    classes, queues = workload.of_cluster("WorkloadPriorityClass"), workload.of_kind("LocalQueue")
    known_here = workload.in_job_folder and workload.platform is not None
    for key, kind, there in ((QUEUE, "LocalQueue", queues), (PRIORITY, "WorkloadPriorityClass", classes)):
        name = pairs(labels).get(key)
        names = sorted(other.name for other in there if other.group == GROUP)
        if name and name not in names and (names or known_here):
            where = f" in namespace {item.namespace}" if kind == "LocalQueue" and item.namespace else ""
            help = f"use {either(names)}" if names else "add it to the platform of the cluster"
            yield Problem(f"there is no {kind} {name}{where}: the job stays suspended", labels.below(key), help=help)


@rule("QUE012", "queue-takes-nothing", Severity.ERROR, needs=Object)
def queue_takes_nothing(item: Object) -> Iterator[Problem]:
    """A ClusterQueue takes jobs of no namespace, or its flavors do not list the resources that it covers.

    Without a namespaceSelector no namespace may use a queue; `{}` lets all of them. Each flavor lists the covered
    resources, all of them and in the same order, or the queue is refused.

    Bad:
        # whole
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: a, resources: [{name: cpu}]}]}]}
    Good:
        # whole
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          namespaceSelector: {}
          resourceGroups: [{coveredResources: [cpu], flavors: [{name: a, resources: [{name: cpu}]}]}]
    Near miss:
        # whole
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: shared-quota}
        spec: {cohortName: all}

    Source: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/
    """
    if (item.group, item.kind) != (GROUP, "ClusterQueue"):
        return
    spec, selector = item.at("spec"), item.at("spec", "namespaceSelector")
    groups = list(items(spec.below("resourceGroups")))
    if groups and value_at(selector) is None:
        help = "write namespaceSelector: {}, or labels of namespaces"
        yield Problem("no namespaceSelector: the queue takes jobs of no namespace", selector, help=help)
    for group, _ in groups:
        covered = [name for _, name in words(group.below("coveredResources"))]
        for flavor, _ in items(group.below("flavors")):
            listed = [word(spot.below("name")) for spot, _ in items(flavor.below("resources"))]
            if covered and listed != covered:
                related = (group.below("coveredResources"),)
                said = f"flavor {word(flavor.below('name'))} does not list the covered resources in their order"
                yield Problem(said, flavor.below("resources"), related, f"list {', '.join(covered)}")
