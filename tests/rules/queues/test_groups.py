"""Pod sets that Kueue places together: of a LeaderWorkerSet those of one group, each of which is a Workload."""

from tests.rules.judging import judge

SERVER = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: chat, namespace: serve, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  replicas: %s
  leaderWorkerTemplate:
    size: %s
    leaderTemplate:
      metadata: {annotations: %s}
      spec: {containers: [{name: leader, image: "registry.example.com/serve:1", resources: {limits: {cpu: 4}}}]}
    workerTemplate:
      metadata: {annotations: %s}
      spec: {containers: [{name: worker, image: "registry.example.com/serve:1", resources: {limits: {amd.com/gpu: 8}}}]}
"""
GROUP = "{kueue.x-k8s.io/podset-group-name: all, kueue.x-k8s.io/podset-required-topology: example.com/rack}"
SLICES = "{kueue.x-k8s.io/podset-slice-required-topology: example.com/rack, kueue.x-k8s.io/podset-slice-size: '%s'}"


def test_each_group_of_a_leader_worker_set_has_one_leader() -> None:
    assert judge("QUE010", SERVER % (3, 4, GROUP, GROUP)) == []


def test_slices_are_held_against_the_workers_of_one_group() -> None:
    said = "error: a slice of 4 pods is larger than the 3 of the pod set"
    where = "LeaderWorkerSet/chat spec.leaderWorkerTemplate.workerTemplate.metadata"
    annotation = f"{where}.annotations[kueue.x-k8s.io/podset-slice-size]"
    assert judge("QUE007", SERVER % (3, 4, "{}", SLICES % 4)) == [f"{said} @ {annotation}"]
    assert judge("QUE007", SERVER % (3, 4, "{}", SLICES % 3)) == []
