"""Whether a queue of Kueue can ever admit a job: QUE013 and up."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.quantity import quantity, shown
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import items, word, words
from trainyard.rules.common.places import value_at
from trainyard.rules.queues.kueue import cluster_queue, excluded, queue_label, settings
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload


@rule("QUE013", "resource-not-covered", Severity.ERROR, needs=Workload)
@once
def resource_not_covered(workload: Workload) -> Iterator[Problem]:
    """A queued job asks for a resource that its ClusterQueue does not cover.

    Kueue admits a job when it finds quota for all that its pods request. For a resource that no flavor of the queue
    names it never finds quota, unless Kueue's settings tell it not to count that resource.

    Bad:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          resourceGroups:
          - coveredResources: [cpu, memory, nvidia.com/gpu]
            flavors: [{name: h100, resources: []}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
    Good:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          resourceGroups:
          - coveredResources: [cpu, memory, nvidia.com/gpu, rdma/hca]
            flavors: [{name: h100, resources: []}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
    Near miss:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: kueue-manager-config, namespace: kueue-system}
        data:
          controller_manager_config.yaml: |
            apiVersion: config.kueue.x-k8s.io/v1beta2
            kind: Configuration
            resources: {excludeResourcePrefixes: [rdma/]}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          resourceGroups:
          - coveredResources: [cpu, memory, nvidia.com/gpu]
            flavors: [{name: h100, resources: []}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}

    Source: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavors-and-resources
    """
    queue = cluster_queue(workload)
    if queue is None:
        return
    covered = {name for group, _ in items(_groups(queue)) for _, name in words(group.below("coveredResources"))}
    left_out = tuple(prefix for parsed, _ in settings(workload.objects) for prefix in excluded(parsed))
    for name, (spot, amount) in _asked(workload).items() if covered else ():
        if name not in covered and amount and not name.startswith(left_out):
            yield Problem(
                f"the pods request {name}, which queue {queue.name} does not cover: the job is never admitted",
                spot,
                (_groups(queue).saying("what it covers"), queue_label(workload.object)),
                "cover it by a flavor, or leave it out by excludeResourcePrefixes",
            )


@rule("QUE014", "larger-than-queue", Severity.ERROR, needs=Workload)
def larger_than_queue(workload: Workload) -> Iterator[Problem]:
    """A queued job asks for more than its ClusterQueue will ever have.

    Kueue admits a job as a whole. One that asks for more than all flavors of its queue together waits for ever, unless
    the queue may borrow in a cohort.

    Bad:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          resourceGroups:
          - coveredResources: [nvidia.com/gpu]
            flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 16}]}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
    Good:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          resourceGroups:
          - coveredResources: [nvidia.com/gpu]
            flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
    Near miss:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: all}
        spec:
          cohortName: everybody
          resourceGroups:
          - coveredResources: [nvidia.com/gpu]
            flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 16}]}]
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: team, namespace: research}
        spec: {clusterQueue: all}
        ---
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}

    Source: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavors-and-resources
    """
    queue = cluster_queue(workload)
    if queue is None or word(queue.at("spec", "cohortName")) or word(queue.at("spec", "cohort")):
        return
    over: list[tuple[str, Spot, Fraction, Fraction, Spot]] = []
    for name, (quota, where) in _quotas(queue).items():
        asked = _pods(workload) if name == "pods" else _asked(workload).get(name)
        if asked is not None and asked[1] is not None and asked[1] > quota:
            over.append((name, asked[0], asked[1], quota, where))
    if not over:
        return
    (name, at, total, quota, where), *others = sorted(over, key=lambda each: not each[0].endswith("/gpu"))
    if workload.in_job_folder:  # there a pod takes a whole node, and job.yaml says how many
        at = workload.pod_sets[-1].count.spot
    too_small = (each.saying("too small as well") for *_, each in others)
    yield Problem(
        f"the job asks for {shown(total)} {name}, but queue {queue.name} has {shown(quota)} at most",
        at.saying("as many pods" if workload.in_job_folder else "of each pod"),
        (where.saying("the quota"), *too_small, queue_label(workload.object)),
        "use fewer nodes or a larger queue" if workload.in_job_folder else "use fewer pods or a larger queue",
    )


def _groups(queue: Object) -> Spot:
    return queue.at("spec", "resourceGroups")


def _quotas(queue: Object) -> Mapping[str, tuple[Fraction, Spot]]:
    """The quota of each resource through all flavors; a resource is left out where one of them is not known."""
    found: dict[str, list[tuple[Fraction | None, Spot]]] = defaultdict(list)
    for group, _ in items(_groups(queue)):
        for flavor, _ in items(group.below("flavors")):
            for resource, _ in items(flavor.below("resources")):
                spot = resource.below("nominalQuota")
                found[word(resource.below("name"))].append((quantity(value_at(spot)), spot))
    return {
        name: (sum((amount for amount, _ in quotas if amount is not None), Fraction(0)), quotas[0][1])
        for name, quotas in found.items()
        if all(amount is not None for amount, _ in quotas)
    }


def _asked(workload: Workload) -> Mapping[str, tuple[Spot, Fraction | None]]:
    """What all pods request, with a place that says so; the amount is None where it is not known."""
    found: dict[str, tuple[Spot, Fraction | None]] = {}
    for pod_set in workload.pod_sets:
        for name, (spot, amount) in _of_a_pod(pod_set).items():
            pods = pod_set.count.value
            more = None if amount is None or not isinstance(pods, int) else amount * pods
            before = found.get(name)
            if before is None:
                found[name] = (spot, more)
            else:
                found[name] = (before[0], None if more is None or before[1] is None else before[1] + more)
    return found


def _pods(workload: Workload) -> tuple[Spot, Fraction | None] | None:
    """The pods themselves, which Kueue counts where a queue covers them."""
    if not workload.pod_sets:
        return None
    pods = workload.pods
    return workload.pod_sets[0].count.spot, None if pods is None else Fraction(pods)


def _of_a_pod(pod_set: PodSet) -> Mapping[str, tuple[Spot, Fraction | None]]:
    """What one pod's containers request together. Its init containers run before them, and rarely ask for more."""
    found: dict[str, tuple[Spot, Fraction | None]] = {}
    for container in pod_set.containers:
        for name, setting in container.requests.items():
            amount = quantity(setting.value)
            before = found.get(name)
            if before is None:
                found[name] = (setting.spot, amount)
            else:
                found[name] = (before[0], None if amount is None or before[1] is None else before[1] + amount)
    return found
