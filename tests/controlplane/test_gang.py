"""Two jobs that need more than half of a cluster each: side by side they wait for ever, in a gang they take turns.

Which pod reaches the scheduler first is chance in a cluster. Here it is the worst case: scheduling gates hold all pods
back, and are taken from the two jobs in turn.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from tests.controlplane.harness import Ground, finish, ground, node_named
from trainyard.controlplane.controllers import COSCHEDULER

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

NODES, GPUS, PODS = 4, 8, 3
NAMESPACE = "research"
GPU = "nvidia.com/gpu"
GATE = "example.com/in-turn"
QUEUE = "kueue.x-k8s.io/queue-name"
POD_GROUP = "scheduling.x-k8s.io/pod-group"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ground]:
    with ground() as made:
        for index in range(NODES):
            made.add_node(node_named(f"node-{index}", {"cpu": "64", "memory": "1Ti", GPU: str(GPUS)}))
        made.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        default = {"namespace": NAMESPACE, "name": "default"}
        made.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": default})
        yield made


def job(name: str, *, labels: Json | None = None, pod_labels: Json | None = None, scheduler: str = "") -> Json:
    """A job of one pod a node."""
    resources = {"cpu": "8", GPU: str(GPUS)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels or {}},
        "spec": {
            "completionMode": "Indexed",
            "completions": PODS,
            "parallelism": PODS,
            "template": {
                "metadata": {"labels": pod_labels or {}},
                "spec": {
                    "restartPolicy": "Never",
                    "schedulerName": scheduler or "default-scheduler",
                    "schedulingGates": [{"name": GATE}],
                    "containers": [
                        {
                            "name": "trainer",
                            "image": "registry.example.com/trainer:1",
                            "resources": {"limits": resources, "requests": resources},
                        }
                    ],
                },
            },
        },
    }


@contextlib.contextmanager
def jobs(cluster: Ground, *objects: Json) -> Iterator[None]:
    """Objects that are gone afterwards, and their pods with them."""
    try:
        for item in objects:
            cluster.client.create(item)
        yield
    finally:
        for item in reversed(objects):
            cluster.client.delete(item)
        cluster.client.until("end of the pods", lambda: not pods(cluster))


def pods(cluster: Ground, name: str = "") -> list[Json]:
    """The pods of a job, or of both, by rank."""
    found = cluster.client.list("v1", "Pod", NAMESPACE, f"batch.kubernetes.io/job-name={name}" if name else "")
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def let_go_in_turn(cluster: Ground) -> None:
    """Rank 0 of each job, then rank 1 of each, and so on; each has its place, or none, before the next is let go."""
    waiting = [pod for pod in pods(cluster) if pod["spec"].get("schedulingGates")]
    for pod in sorted(waiting, key=lambda pod: (rank(pod), pod["metadata"]["name"])):
        cluster.client.patch(pod, {"spec": {"schedulingGates": None}})
        cluster.client.until("pod that was looked at", partial(was_looked_at, cluster, pod))


def rank(pod: Json) -> int:
    return int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def was_looked_at(cluster: Ground, named: Json) -> bool:
    """Whether the scheduler bound a pod, or said that it cannot; a pod of a gang may wait for the others."""
    pod = cluster.client.get(named)
    conditions = {each["type"]: each.get("reason") for each in pod["status"].get("conditions", [])}
    gang = POD_GROUP in pod["metadata"].get("labels", {})
    return "nodeName" in pod["spec"] or conditions.get("PodScheduled") == "Unschedulable" or gang


def placed(cluster: Ground, name: str) -> int:
    """How many pods of a job run on a node."""
    return sum(pod["status"].get("phase") == "Running" for pod in pods(cluster, name))


def run_to_its_end(cluster: Ground, name: str) -> None:
    for pod in pods(cluster, name):
        finish(cluster.client, pod)


@pytest.mark.claim("half-a-gang-waits")
def test_without_a_gang_both_are_placed_in_part_and_neither_ever_runs(cluster: Ground) -> None:
    with jobs(cluster, job("first"), job("second")):
        cluster.client.until("all pods", lambda: len(pods(cluster)) == 2 * PODS)

        let_go_in_turn(cluster)
        cluster.client.until("full cluster", lambda: placed(cluster, "first") + placed(cluster, "second") == NODES)

        assert [placed(cluster, "first"), placed(cluster, "second")] == [2, 2]
        said = [message(pod) for pod in pods(cluster) if "nodeName" not in pod["spec"]]
        assert len(said) == 2
        assert all(f"{NODES} Insufficient {GPU}" in each for each in said)


def message(pod: Json) -> str:
    """Why a pod has no place."""
    return str(next(each["message"] for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"))


def queue_objects() -> Sequence[Json]:
    """A queue of the whole cluster."""
    quotas = [{"name": "cpu", "nominalQuota": 64 * NODES}, {"name": GPU, "nominalQuota": GPUS * NODES}]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": "h100", "resources": quotas}]}
    version = "kueue.x-k8s.io/v1beta2"
    return (
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": {}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": "training"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"namespace": NAMESPACE, "name": "training"},
            "spec": {"clusterQueue": "training"},
        },
    )


@pytest.mark.claim("kueue-waits-for-quota", "gang-is-placed-whole")
def test_with_kueue_the_second_starts_when_the_first_is_done(cluster: Ground) -> None:
    cluster.ensure("kueue")
    for item in queue_objects():
        cluster.client.create(item)
    names = ("one", "other")
    both = {name: job(name, labels={QUEUE: "training"}) for name in names}
    with jobs(cluster, *both.values()):
        client = cluster.client

        client.until("pods of a job", lambda: PODS in [len(pods(cluster, name)) for name in names])
        # Jobs of one second are equals in the queue: which one is let in is chance.
        first, second = sorted(names, key=lambda name: len(pods(cluster, name)), reverse=True)
        assert client.get(both[second])["spec"]["suspend"] is True

        let_go_in_turn(cluster)
        client.until("first job that runs whole", lambda: placed(cluster, first) == PODS)
        assert pods(cluster, second) == []
        assert client.get(both[second])["spec"]["suspend"] is True

        run_to_its_end(cluster, first)
        client.until("pods of the second", lambda: len(pods(cluster, second)) == PODS)
        let_go_in_turn(cluster)
        client.until("second job that runs whole", lambda: placed(cluster, second) == PODS)


def pod_group(name: str) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"minMember": PODS, "scheduleTimeoutSeconds": 3},
    }


@pytest.mark.long
@pytest.mark.claim("gang-is-placed-whole")
def test_with_coscheduling_one_is_placed_whole_and_then_the_other(cluster: Ground) -> None:
    cluster.ensure("coscheduling")
    names = ("first", "second")
    both = [job(name, pod_labels={POD_GROUP: name}, scheduler=COSCHEDULER) for name in names]
    with jobs(cluster, *map(pod_group, names), *both):
        client = cluster.client
        client.until("all pods", lambda: len(pods(cluster)) == 2 * PODS)

        let_go_in_turn(cluster)
        client.until("job that runs whole", lambda: PODS in [placed(cluster, name) for name in names], 90)
        before, after = sorted(names, key=lambda name: placed(cluster, name), reverse=True)
        assert placed(cluster, after) == 0

        run_to_its_end(cluster, before)
        client.until("other job that runs whole", lambda: placed(cluster, after) == PODS, 90)
