"""base/torchrun on the real Job controller and scheduler: the Workload predicts its pods, field by field."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.controlplane.harness import Ground, differences, environment, ground_for, unit_of, workload_of
from trainyard.workload.model import Container, EnvVar, PodSet, Setting, Workload

pytestmark = pytest.mark.controlplane

JOBS = ["jobs/research/gpt2-124m", "jobs/research/llama-8b-sft"]


@dataclass(frozen=True, slots=True)
class Run:
    """A job that runs."""

    ground: Ground
    workload: Workload
    pods: list[dict[str, Any]]


@pytest.fixture(scope="module", params=JOBS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    unit = unit_of(request.param)
    workload = workload_of(unit)
    with ground_for(unit) as ground:
        ground.apply(unit)
        yield Run(ground, workload, ground.running_pods(workload))


def test_the_workload_predicts_the_pods(run: Run) -> None:
    assert differences(run.workload, run.pods, run.ground.client) == []


def test_every_rank_is_a_node_of_its_own_and_knows_its_number(run: Run) -> None:
    (pod_set,) = run.workload.pod_sets

    ranks = [environment(pod["spec"]["containers"][0], pod, {})["JOB_COMPLETION_INDEX"] for pod in run.pods]

    assert ranks == [str(index) for index in range(pod_set.count.value)]
    assert [pod["spec"]["hostname"] for pod in run.pods] == list(pod_set.hostnames)
    assert len({pod["spec"]["nodeName"] for pod in run.pods}) == len(run.pods)


def test_rendezvous_is_the_name_of_rank_0_at_the_open_port(run: Run) -> None:
    job = run.workload.object
    first = run.pods[0]
    port = run.ground.client.get({**job.data, "apiVersion": "v1", "kind": "Service"})["spec"]["ports"][0]["port"]

    found = environment(first["spec"]["containers"][0], first, {})["PET_RDZV_ENDPOINT"]

    assert found == f"{first['spec']['hostname']}.{first['spec']['subdomain']}:{port}"


Change = Callable[[PodSet], PodSet]


def in_container(**changes: Any) -> Change:
    def change(pod_set: PodSet) -> PodSet:
        first, *rest = pod_set.containers
        return replace(pod_set, containers=(replace(first, **changes), *rest))

    return change


def in_env(name: str, value: str | None) -> Change:
    def change(pod_set: PodSet) -> PodSet:
        first: Container = pod_set.containers[0]
        env = dict(first.env)
        if value is None:
            del env[name]
        else:
            known = env.get(name) or EnvVar(name, None, first.spot)
            env[name] = replace(known, value=value)
        return in_container(env=env)(pod_set)

    return change


def with_count(pod_set: PodSet) -> PodSet:
    return replace(pod_set, count=replace(pod_set.count, value=pod_set.count.value + 1))


def with_hostnames(pod_set: PodSet) -> PodSet:
    return replace(pod_set, hostnames=tuple(f"{name}-worker" for name in pod_set.hostnames))


def with_subdomain(pod_set: PodSet) -> PodSet:
    assert pod_set.subdomain is not None
    return replace(pod_set, subdomain=replace(pod_set.subdomain, value="elsewhere"))


def with_label(pod_set: PodSet) -> PodSet:
    return replace(pod_set, labels={**pod_set.labels, "training.kubeflow.org/job-name": "x"})


def without_volume(pod_set: PodSet) -> PodSet:
    return replace(pod_set, spec={**pod_set.spec, "volumes": pod_set.spec["volumes"][1:]})


def with_fewer_gpus(pod_set: PodSet) -> PodSet:
    limits = pod_set.containers[0].limits
    fewer = Setting(4, limits["nvidia.com/gpu"].spot)
    return in_container(limits={**limits, "nvidia.com/gpu": fewer})(pod_set)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (with_count, "pods are predicted, "),
        (with_hostnames, "host name is "),
        (with_subdomain, "subdomain is 'elsewhere' in the prediction"),
        (with_label, "labels is "),
        (without_volume, "volumes is "),
        (with_fewer_gpus, "container trainer: limits is "),
        (in_container(name="pytorch"), "containers is ['pytorch'] in the prediction"),
        (in_container(image="other"), "image is 'other' in the prediction"),
        (in_env("PET_NNODES", "3"), "PET_NNODES is '3' in the prediction"),
        (in_env("TRAINER_MICRO_BATCH", "99"), "TRAINER_MICRO_BATCH is '99' in the prediction"),
        (in_env("NCCL_NET", None), "variables is "),
        (in_env("MASTER_ADDR", "rank-0"), "variables is "),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_wrong_prediction_is_noticed(run: Run, mistake: Change, said: str) -> None:
    wrong = replace(run.workload, pod_sets=tuple(map(mistake, run.workload.pod_sets)))

    found = differences(wrong, run.pods, run.ground.client)

    assert any(said in text for text in found), found
