"""What Kueue refuses of Ray, and of large jobs: QUE015 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import items, part, word
from trainyard.rules.common.places import value_at
from trainyard.rules.queues.kueue import ELASTIC, is_elastic, is_queued, queue_label
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.ray import HEAD

_MOST_POD_SETS = 18


@rule("QUE015", "queued-ray-refused", Severity.ERROR, needs=Object)
def queued_ray_refused(item: Object) -> Iterator[Problem]:
    """Kueue refuses a RayJob or RayCluster that it could not stop, or whose size it could not know.

    A queued RayJob makes its own cluster and shuts it down when it ends, so that the quota comes back. A queued cluster
    keeps its size, unless it is marked as elastic. And no worker group is called head.

    Bad:
        # on: rayjob
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec: {shutdownAfterJobFinishes: null}
    Good:
        # on: rayjob
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec: {shutdownAfterJobFinishes: true}
    Near miss:
        # on: raycluster
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}, annotations: {kueue.x-k8s.io/elastic-job: "true"}}
        spec: {enableInTreeAutoscaling: true}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/
    """
    cluster = _cluster(item)
    if cluster is None or not is_queued(item):
        return
    related = (queue_label(item).saying("goes through this queue"),)
    if item.kind == "RayJob":
        shuts, selector = item.at("spec", "shutdownAfterJobFinishes"), item.at("spec", "clusterSelector")
        if part(selector):
            if part(cluster):
                help = "leave clusterSelector out"
                yield Problem("a queued RayJob may not use a cluster that exists", selector, related, help)
            return
        if value_at(shuts) is not True:
            said = "Kueue refuses a RayJob that keeps its cluster: the cluster would keep the quota"
            yield Problem(said, shuts, related, "set shutdownAfterJobFinishes: true")
    scales = cluster.below("enableInTreeAutoscaling")
    if value_at(scales) is True and not is_elastic(item):
        said = f"Kueue refuses a {item.kind} that scales by itself and is not marked as elastic"
        yield Problem(said, scales, related, f'remove it, or set the annotation {ELASTIC}: "true"')
    for group, _ in items(cluster.below("workerGroupSpecs")):
        if word(group.below("groupName")) == HEAD:
            said = "a queued cluster may call no worker group head"
            yield Problem(said, group.below("groupName"), related, "give the group another name")


@rule("QUE016", "too-many-pod-sets", Severity.ERROR, needs=Workload)
def too_many_pod_sets(workload: Workload) -> Iterator[Problem]:
    """A queued job has more pod templates than Kueue counts.

    A Workload of Kueue holds at most 18 pod sets: the head and 17 worker groups of a Ray cluster, or 18 replicatedJobs.

    Bad:
        # on: jobset
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec:
          replicatedJobs: [
            {name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g}, {name: h}, {name: i},
            {name: j}, {name: k}, {name: l}, {name: m}, {name: n}, {name: o}, {name: p}, {name: q}, {name: r},
          ]
    Good:
        # on: jobset
        metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
        spec: {replicatedJobs: [{name: node, replicas: 19}]}
    Near miss:
        # on: jobset
        spec:
          replicatedJobs: [
            {name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g}, {name: h}, {name: i},
            {name: j}, {name: k}, {name: l}, {name: m}, {name: n}, {name: o}, {name: p}, {name: q}, {name: r},
          ]

    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/controller/jobframework/constants.go
    """
    item, number = workload.object, len(workload.pod_sets)
    if not is_queued(item) or number <= _MOST_POD_SETS:
        return
    cluster = _cluster(item)
    spot = item.at("spec", "replicatedJobs") if cluster is None else cluster.below("workerGroupSpecs")
    related = (queue_label(item).saying("goes through this queue"),)
    yield Problem(f"{number} pod sets, but Kueue takes {_MOST_POD_SETS}", spot, related, "join groups of equal pods")


def _cluster(item: Object) -> Spot | None:
    """The spec of a Ray cluster, whoever makes it."""
    if item.group != "ray.io":
        return None
    return {"RayCluster": item.at("spec"), "RayJob": item.at("spec", "rayClusterSpec")}.get(item.kind)
