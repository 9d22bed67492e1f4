"""The groups of pods of a Ray cluster: RAY005 and up."""

from collections import Counter
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put, remove
from trainyard.rules.common.counts import is_gpu, whole
from trainyard.rules.common.parts import integer, pairs, part, word
from trainyard.rules.ray.clusters import all_groups, cluster_spec, head_variable, worker_groups
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import text

_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")
_FAULT_TOLERANT = "ray.io/ft-enabled"


@rule("RAY005", "worker-group-bounds", Severity.ERROR, needs=Object, fix="unsafe")
def worker_group_bounds(item: Object) -> Iterator[Problem]:
    """The number of a worker group's pods contradicts its bounds.

    KubeRay refuses bounds that cross. Replicas outside of them it moves to the next bound without a word: the training
    script then waits for workers that are never made.

    Bad:
        # on: raycluster
        spec: {workerGroupSpecs: [{groupName: gpu, replicas: 8, minReplicas: 0, maxReplicas: 4}]}
    Good:
        # on: raycluster
        spec: {workerGroupSpecs: [{groupName: gpu, replicas: 8, minReplicas: 0, maxReplicas: 8}]}
    Near miss:
        # on: raycluster
        spec: {workerGroupSpecs: [{groupName: gpu, minReplicas: 2, maxReplicas: 4, replicas: null}]}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    cluster = cluster_spec(item)
    for group, data in worker_groups(cluster) if cluster is not None else ():
        count, least, most = (integer(group.below(name)) for name in ("replicas", "minReplicas", "maxReplicas"))
        name = text(data.get("groupName"))
        if least is not None and most is not None and least > most:
            related = (group.below("maxReplicas"),)
            said = f"group {name} has at least {least} and at most {most} replicas"
            yield Problem(said, group.below("minReplicas"), related, "swap them, or make them equal")
        elif count is not None and most is not None and count > most:
            related = (group.below("maxReplicas").saying("no more are made"),)
            said = f"group {name} asks for {count} replicas, but gets {most}"
            yield Problem(
                said,
                group.below("replicas"),
                related,
                f"raise maxReplicas to {count}",
                put(group.below("maxReplicas"), count).unsafe(),
            )
        elif count is not None and least is not None and count < least:
            related = (group.below("minReplicas").saying("no fewer are made"),)
            said = f"group {name} asks for {count} replicas, but gets {least}"
            yield Problem(
                said,
                group.below("replicas"),
                related,
                f"lower minReplicas to {count}",
                put(group.below("minReplicas"), count).unsafe(),
            )


@rule("RAY006", "worker-groups-share-a-name", Severity.ERROR, needs=Object)
def worker_groups_share_a_name(item: Object) -> Iterator[Problem]:
    """Two worker groups of a Ray cluster have one name.

    KubeRay finds the pods of a group by its name. It counts those of both as one: it makes too few, and deletes those
    that it takes for too many.

    Bad:
        # on: raycluster
        spec: {workerGroupSpecs: {$replace: [{groupName: gpu, replicas: 2}, {groupName: gpu, replicas: 4}]}}
    Good:
        # on: raycluster
        spec: {workerGroupSpecs: {$replace: [{groupName: gpu, replicas: 2}, {groupName: cpu, replicas: 4}]}}
    Near miss:
        # on: raycluster
        metadata: {name: gpu}
        spec: {workerGroupSpecs: {$replace: [{groupName: gpu, replicas: 2}]}}

    Source: https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    cluster = cluster_spec(item)
    named = (
        []
        if cluster is None
        else [(spot.below("groupName"), text(data.get("groupName"))) for spot, data in worker_groups(cluster)]
    )
    counted = Counter(name for _, name in named if name)
    for name, number in counted.items():
        if number > 1:
            first, *others = (spot for spot, each in named if each == name)
            yield Problem(f"{number} worker groups are called {name}", first, tuple(others), "give each its own name")


@rule("RAY007", "ray-resources-said-twice", Severity.ERROR, needs=Object)
def ray_resources_said_twice(item: Object) -> Iterator[Problem]:
    """A group says twice what its Ray nodes have.

    CPUs, GPUs and Ray's own resources are set in rayStartParams or in `resources` of the group, labels in `labels`
    only. KubeRay refuses a group that sets them in both places.

    Bad:
        # on: raycluster
        spec: {headGroupSpec: {rayStartParams: {num-cpus: "0"}, resources: {CPU: "0"}}}
    Good:
        # on: raycluster
        spec: {headGroupSpec: {resources: {CPU: "0"}}}
    Near miss:
        # on: raycluster
        spec: {headGroupSpec: {rayStartParams: {dashboard-host: 0.0.0.0}, resources: {CPU: "0"}}}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    cluster = cluster_spec(item)
    for what, group in all_groups(cluster) if cluster is not None else ():
        params, own = group.below("rayStartParams"), group.below("resources")
        said = next((name for name in _RESOURCES if pairs(params).get(name)), "")
        if said and part(own):
            yield Problem(f"{what} is given resources twice", params.below(said), (own,), "keep one of them")
        if "labels" in part(params):
            help = "write them under labels of the group"
            yield Problem(f"{what} may not get labels by rayStartParams", params.below("labels"), help=help)


@rule("RAY008", "ray-counts-missing-gpus", Severity.ERROR, needs=Object, fix="unsafe")
def ray_counts_missing_gpus(item: Object) -> Iterator[Problem]:
    """Ray is told of more GPUs than its container has.

    KubeRay tells Ray the container's limit, unless `num-gpus` says another number. Ray believes it, places more actors
    than there are GPUs, and those fail or share one. Of a container without any, that is a warning: Ray's GPUs may
    be numbers to schedule by, in a test.

    Bad:
        # on: raycluster
        spec:
          workerGroupSpecs:
          - groupName: gpu
            rayStartParams: {num-gpus: "8"}
            template: {spec: {containers: [{name: ray-worker, resources: {limits: {nvidia.com/gpu: 4}}}]}}
    Good:
        # on: raycluster
        spec:
          workerGroupSpecs:
          - groupName: gpu
            rayStartParams: {}
            template: {spec: {containers: [{name: ray-worker, resources: {limits: {nvidia.com/gpu: 4}}}]}}
    Near miss:
        # on: raycluster
        spec:
          headGroupSpec:
            rayStartParams: {num-gpus: "0"}
            template: {spec: {containers: [{name: ray-head, resources: {limits: {nvidia.com/gpu: 4}}}]}}

    Source: https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    cluster = cluster_spec(item)
    for what, group in all_groups(cluster) if cluster is not None else ():
        told = group.below("rayStartParams", "num-gpus")
        limits = group.below("template", "spec", "containers", 0, "resources", "limits")
        has = sum(whole(amount) or 0 for name, amount in part(limits).items() if isinstance(name, str) and is_gpu(name))
        number = whole(word(told))
        if number is not None and number > has:
            related = (limits.saying("what it has"),)
            help = "leave num-gpus out: the limit is told to Ray"
            yield Problem(
                f"Ray is told that {what} has {number} GPUs, but it has {has}",
                told,
                related,
                help,
                remove(told).unsafe(),
                severity=None if has else Severity.WARNING,
            )


@rule("RAY009", "fault-tolerance-said-twice", Severity.ERROR, needs=Object)
def fault_tolerance_said_twice(item: Object) -> Iterator[Problem]:
    """A Ray cluster is told of its Redis in two ways, or in one that KubeRay does not take any more.

    gcsFaultToleranceOptions holds the address, the user and the password. KubeRay refuses it beside the older
    annotation and variables, and those variables without it.

    Bad:
        # on: raycluster
        metadata: {annotations: {ray.io/ft-enabled: "true"}}
        spec: {gcsFaultToleranceOptions: {redisAddress: "redis:6379"}}
    Good:
        # on: raycluster
        spec: {gcsFaultToleranceOptions: {redisAddress: "redis:6379"}}
    Near miss:
        # on: raycluster
        metadata: {annotations: {ray.io/ft-enabled: "true"}}
        spec:
          headGroupSpec:
            template:
              spec: {containers: [{name: ray-head, env: [{name: RAY_REDIS_ADDRESS, value: "redis:6379"}]}]}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    cluster = cluster_spec(item)
    if cluster is None:
        return
    options, told = cluster.below("gcsFaultToleranceOptions"), item.at("metadata", "annotations")
    older = [told.below(_FAULT_TOLERANT)] if pairs(told).get(_FAULT_TOLERANT) else []
    older += [found[0] for name in _REDIS if (found := head_variable(cluster, name)) is not None]
    address = head_variable(cluster, _REDIS[0])
    if part(options):
        for spot in older:
            help = "keep gcsFaultToleranceOptions"
            yield Problem("fault tolerance is configured twice, which KubeRay refuses", spot, (options,), help)
    elif address is not None and pairs(told).get(_FAULT_TOLERANT, "").lower() != "true":
        said = f"{_REDIS[0]} asks for fault tolerance, which gcsFaultToleranceOptions must"
        yield Problem(said, address[0], help="set gcsFaultToleranceOptions.redisAddress instead")


_REDIS = ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD")
