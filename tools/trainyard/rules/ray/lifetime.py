"""Which cluster a RayJob runs on, how it is submitted, and how long the cluster lives: RAY001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put, remove
from trainyard.rules.common.parts import integer, items, part, word
from trainyard.rules.common.places import value_at
from trainyard.rules.ray.clusters import job_spec
from trainyard.rules.registry import Problem, rule

_SELECTOR = "ray.io/cluster"


@rule("RAY001", "ray-cluster-unclear", Severity.ERROR, needs=Object, fix="unsafe")
def ray_cluster_unclear(item: Object) -> Iterator[Problem]:
    """A RayJob does not say which cluster it runs on, or says it twice.

    It makes a cluster from rayClusterSpec, or runs on the one that `ray.io/cluster` of clusterSelector names. KubeRay
    refuses a RayJob with neither, and reads no rayClusterSpec where there is a selector.

    Bad:
        # on: rayjob
        spec: {clusterSelector: {cluster: shared}, rayClusterSpec: null}
    Bad:
        # on: rayjob
        spec:
          clusterSelector: {ray.io/cluster: shared}
          rayClusterSpec:
            headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.9.0"}]}}}
    Good:
        # on: rayjob
        spec: {clusterSelector: {ray.io/cluster: shared}, rayClusterSpec: null}
    Near miss:
        # on: rayjob
        spec: {clusterSelector: {}}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    spec = job_spec(item)
    if spec is None or not part(spec):
        return
    selector, cluster = spec.below("clusterSelector"), spec.below("rayClusterSpec")
    if part(selector) and not word(selector.below(_SELECTOR)):
        yield Problem(f"clusterSelector names no cluster: it has no {_SELECTOR}", selector, help=f"set {_SELECTOR}")
    elif part(selector) and part(cluster):
        said = "the RayJob runs on a cluster that exists, and its rayClusterSpec is not read"
        fix = remove(cluster).saying("leave rayClusterSpec out, which is not read").unsafe()
        yield Problem(said, cluster, (selector.saying("is read"),), "leave one of them out", fix)
    elif not part(selector) and not part(cluster):
        yield Problem("the RayJob has no cluster to run on", spec, help="add rayClusterSpec or clusterSelector")


@rule("RAY002", "ray-cluster-not-shut-down", Severity.ERROR, needs=Object, fix="safe")
def ray_cluster_not_shut_down(item: Object) -> Iterator[Problem]:
    """A RayJob asks for something that needs its cluster to go when it ends, and keeps the cluster.

    A time to live and a suspension need shutdownAfterJobFinishes. deletionRules need it off. KubeRay refuses others,
    and a suspended RayJob on a cluster that is not its own.

    Bad:
        # on: rayjob
        spec: {ttlSecondsAfterFinished: 600, shutdownAfterJobFinishes: null}
    Good:
        # on: rayjob
        spec: {shutdownAfterJobFinishes: true, ttlSecondsAfterFinished: 600}
    Near miss:
        # on: rayjob
        spec: {ttlSecondsAfterFinished: 0, shutdownAfterJobFinishes: null}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    spec = job_spec(item)
    if spec is None:
        return
    shuts = spec.below("shutdownAfterJobFinishes")
    rules, seconds = spec.below("deletionStrategy", "deletionRules"), spec.below("ttlSecondsAfterFinished")
    suspend, selector = spec.below("suspend"), spec.below("clusterSelector")
    if value_at(shuts) is True:
        if list(items(rules)):
            yield Problem("deletionRules and shutdownAfterJobFinishes exclude each other", rules, (shuts,), "keep one")
    else:
        if (integer(seconds) or 0) > 0:
            said = "ttlSecondsAfterFinished needs shutdownAfterJobFinishes"
            yield Problem(said, seconds, (shuts,), "set shutdownAfterJobFinishes: true", put(shuts, True))
        if value_at(suspend) is True:
            said = "only a RayJob that shuts its cluster down may be suspended"
            yield Problem(said, suspend, (shuts,), "set shutdownAfterJobFinishes: true", put(shuts, True).unsafe())
    if value_at(suspend) is True and part(selector):
        said = "a RayJob on a cluster that exists cannot be suspended"
        yield Problem(said, suspend, (selector,), "use rayClusterSpec")


@rule("RAY003", "submission-mode-refused", Severity.ERROR, needs=Object, fix="safe")
def submission_mode_refused(item: Object) -> Iterator[Problem]:
    """A RayJob asks for something that its way of submission does not have.

    Retries make a new cluster each, so they need one of its own and a job that KubeRay submits. In SidecarMode the
    submitter runs beside the head: it has no pod of its own, and the head restarts never. KubeRay refuses others.

    Bad:
        # on: rayjob
        spec: {backoffLimit: 3, clusterSelector: {ray.io/cluster: shared}, rayClusterSpec: null}
    Good:
        # on: rayjob
        spec: {backoffLimit: 3}
    Near miss:
        # on: rayjob
        spec: {entrypoint: null, submissionMode: InteractiveMode, backoffLimit: 0}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    spec = job_spec(item)
    if spec is None:
        return
    mode, retries, selector = (spec.below(name) for name in ("submissionMode", "backoffLimit", "clusterSelector"))
    if (integer(retries) or 0) > 0:
        if part(selector):
            yield Problem(
                "retries need a cluster of their own", retries, (selector,), "leave backoffLimit out", remove(retries)
            )
        if word(mode) == "InteractiveMode":
            yield Problem(
                "a RayJob that is submitted by hand has no retries",
                retries,
                (mode,),
                "leave backoffLimit out",
                remove(retries),
            )
    if word(mode) == "SidecarMode":
        for spot in _not_beside_the_head(spec):
            yield Problem(f"SidecarMode takes no {spot.path[-1]}", spot, (mode,), "leave it out, or use K8sJobMode")


@rule("RAY004", "ray-cluster-outlives-job", Severity.INFO, needs=Object, fix="unsafe")
def ray_cluster_outlives_job(item: Object) -> Iterator[Problem]:
    """The cluster of a RayJob goes on when the job has ended, and keeps its GPUs.

    shutdownAfterJobFinishes is false by default. Somebody must delete the RayJob then, or its nodes stand idle.

    Bad:
        # on: rayjob
        spec: {shutdownAfterJobFinishes: null}
    Good:
        # on: rayjob
        spec: {shutdownAfterJobFinishes: true}
    Near miss:
        # on: rayjob
        spec: {clusterSelector: {ray.io/cluster: shared}, shutdownAfterJobFinishes: null, rayClusterSpec: null}

    Source: https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    spec = job_spec(item)
    if spec is None or not part(spec.below("rayClusterSpec")) or part(spec.below("deletionStrategy")):
        return
    queued = "kueue.x-k8s.io/queue-name" in part(item.at("metadata", "labels"))
    if not queued and value_at(spec.below("shutdownAfterJobFinishes")) is not True:
        said = "the cluster keeps its nodes when the job has ended"
        shuts = spec.below("shutdownAfterJobFinishes")
        yield Problem(said, shuts, help="set shutdownAfterJobFinishes: true", fix=put(shuts, True).unsafe())


def _not_beside_the_head(spec: Spot) -> Iterator[Spot]:
    for name in ("submitterPodTemplate", "submitterConfig", "clusterSelector"):
        if part(spec.below(name)):
            yield spec.below(name)
    restarts = spec.below("rayClusterSpec", "headGroupSpec", "template", "spec", "restartPolicy")
    if word(restarts) not in ("", "Never"):
        yield restarts
