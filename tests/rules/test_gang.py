"""GNG rules: pod groups that nobody reads, and groups of the wrong size."""

import pytest

from tests.rules.judging import judge, judge_good_job_with

POD = "kind: Job\nspec: {template: {metadata: {%s: {%s: llama-sft}}, spec: {%s}}}\n"
TEMPLATE = "Job/llama-sft spec.template.metadata"


@pytest.mark.parametrize(
    ("where", "key", "spec", "said"),
    [
        ("labels", "scheduling.k8s.io/pod-group", "", "is read by no scheduler"),
        ("annotations", "pod-group.scheduling.sigs.k8s.io", "schedulerName: volcano", "is read by no scheduler"),
        ("labels", "scheduling.x-k8s.io/pod-group", "", "is not read by the default scheduler"),
        ("labels", "scheduling.x-k8s.io/pod-group", "schedulerName: volcano", "is not read by Volcano"),
        ("labels", "scheduling.x-k8s.io/pod-group", "schedulerName: scheduler-plugins-scheduler", None),
        ("annotations", "scheduling.k8s.io/group-name", "schedulerName: volcano", None),
        ("annotations", "scheduling.k8s.io/group-name", "", "is not read by the default scheduler"),
        ("labels", "scheduling.k8s.io/group-name", "schedulerName: volcano", "is read as an annotation only"),
    ],
)
def test_who_reads_a_pod_group(where: str, key: str, spec: str, said: str | None) -> None:
    kind = where.removesuffix("s")
    expected = f"warning: {kind} {key} {said}: the pods start one by one @ {TEMPLATE}.{where}[{key}]"
    assert judge_good_job_with("GNG001", POD % (where, key, spec)) == ([expected] if said else [])


def test_a_key_on_the_job_and_its_pods_is_told_once() -> None:
    both = POD % ("labels", "scheduling.k8s.io/pod-group", "")
    both = both.replace("kind: Job\n", "kind: Job\nmetadata: {labels: {scheduling.k8s.io/pod-group: llama-sft}}\n")
    assert len(judge_good_job_with("GNG001", both)) == 1


GROUP = """
apiVersion: %s
kind: PodGroup
metadata: {name: llama-sft, namespace: research}
spec: {minMember: %d}
---
"""
COSCHEDULED = POD % ("labels", "scheduling.x-k8s.io/pod-group", "")
VOLCANO = POD % ("annotations", "scheduling.k8s.io/group-name", "schedulerName: volcano")


@pytest.mark.parametrize(
    ("api", "members", "job", "said"),
    [
        ("scheduling.x-k8s.io/v1alpha1", 8, COSCHEDULED, "8 pods, but the job has 4: the gang never forms"),
        (
            "scheduling.x-k8s.io/v1alpha1",
            3,
            COSCHEDULED,
            "3 pods, but the job has 4: some pods may start without the rest",
        ),
        ("scheduling.x-k8s.io/v1alpha1", 4, COSCHEDULED, None),
        ("scheduling.volcano.sh/v1beta1", 8, VOLCANO, "8 pods, but the job has 4: the gang never forms"),
        ("example.com/v1", 8, COSCHEDULED, None),
    ],
)
def test_the_size_of_a_pod_group(api: str, members: int, job: str, said: str | None) -> None:
    expected = f"error: the pod group waits for {said} @ PodGroup/llama-sft spec.minMember"
    assert judge_good_job_with("GNG002", GROUP % (api, members) + job) == ([expected] if said else [])


MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench, namespace: research}
spec:
  runPolicy: {schedulingPolicy: {minAvailable: %d}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template: {spec: {containers: [{name: launcher, image: a, command: [mpirun, a]}]}}
    Worker:
      replicas: 4
      template: {spec: {containers: [{name: worker, image: a, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""


@pytest.mark.parametrize(("members", "count"), [(5, 0), (4, 0), (6, 1), (3, 1)])
def test_a_gang_of_an_mpi_job_may_leave_the_launcher_out(members: int, count: int) -> None:
    assert len(judge("GNG002", MPI % members)) == count


def test_an_elastic_job_may_start_smaller() -> None:
    elastic = """
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: bert, namespace: research}
    spec:
      elasticPolicy: {minReplicas: 2, maxReplicas: 8}
      runPolicy: {schedulingPolicy: {minAvailable: 2}}
      pytorchReplicaSpecs:
        Worker:
          replicas: 4
          template: {spec: {containers: [{name: pytorch, image: a, command: [torchrun, a.py]}]}}
    """
    assert judge("GNG002", elastic) == []
