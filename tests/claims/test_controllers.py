"""What docs/kinds and docs/fabrics.md say of failures, names and rights, asked of a real server and controllers."""

import copy
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from tests.bases.matrix import without_jobs
from tests.controlplane.harness import CONTROLLERS_OF, HOME, Ground, Run, finish, ground_for, unit_of, workload_of
from tests.controlplane.owned import owned
from tests.product.combinations import Combination, write
from trainyard.controlplane import Refused
from trainyard.objects.unit import Unit

pytestmark = pytest.mark.controlplane
BASES = {"JobSet": "jobset", "TrainJob": "trainjob", "MPIJob": "mpijob"}
JOBSET = "jobset.x-k8s.io/v1alpha2"
ROLE = "training.kubeflow.org/job-role"


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Unit]:
    """A job of each kind, all on one cluster."""
    root = tmp_path_factory.mktemp("restarts")
    without_jobs(root)
    return {kind: unit_of(write(root, Combination(base, "gpu-east"), base), root) for kind, base in BASES.items()}


@pytest.fixture(scope="module")
def cluster(units: dict[str, Unit]) -> Iterator[Ground]:
    with ExitStack() as ends:
        yield ends.enter_context(ground_for(units["JobSet"]))


def pods(run: Run) -> dict[str, dict[str, Any]]:
    """The pods of a job by what identifies them."""
    found = owned(run.ground.client, run.workload.object.data, "v1", "Pod")
    return {pod["metadata"]["uid"]: pod for pod in found}


@pytest.mark.claim("restarts-together")
@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_the_first_failed_pod_starts_all_of_them_anew_and_a_disruption_is_not_counted(
    cluster: Ground, units: dict[str, Unit], kind: str
) -> None:
    with cluster.job(units[kind]) as run:
        for disrupted, counted in ((False, 1), (True, 1)):
            before = pods(run)
            finish(cluster.client, next(iter(before.values())), phase="Failed", exit_code=1, disrupted=disrupted)

            def anew(before: Collection[str] = before.keys()) -> bool:
                now = pods(run)
                running = all(pod["status"].get("phase") == "Running" for pod in now.values())
                return running and len(now) == len(before) and now.keys().isdisjoint(before)

            cluster.client.until(f"other pods of the {kind}", anew, 90)
            (jobset,) = owned(cluster.client, run.workload.object.data, JOBSET, "JobSet") or [
                cluster.client.get(run.workload.object.data)
            ]
            assert jobset["status"]["restartsCountTowardsMax"] == counted


@pytest.mark.claim("mpi-starts-anew")
def test_a_failed_launcher_stays_beside_the_next_and_a_deleted_worker_is_made_anew(
    cluster: Ground, units: dict[str, Unit]
) -> None:
    with cluster.job(units["MPIJob"]) as run:
        before = pods(run)
        launcher, worker = (
            next(uid for uid, pod in before.items() if pod["metadata"]["labels"].get(ROLE) == role)
            for role in ("launcher", "worker")
        )
        finish(cluster.client, before[launcher], phase="Failed", exit_code=1)
        cluster.client.delete(before[worker], now=True)

        def went_on() -> bool:
            now = pods(run)
            roles = [pod["metadata"]["labels"].get(ROLE) for pod in now.values()]
            others = (len(before) - 1, 2)
            return (roles.count("worker"), roles.count("launcher")) == others and launcher in now and worker not in now

        cluster.client.until("another launcher beside the failed one", went_on, 90)


@pytest.mark.claim("long-names")
def test_the_webhook_refuses_a_jobset_whose_pods_names_are_too_long(cluster: Ground, units: dict[str, Unit]) -> None:
    cluster.ensure(*CONTROLLERS_OF["jobset.x-k8s.io", "JobSet"])
    made = workload_of(units["JobSet"]).object.data

    taken = []
    for length in (47, 48):
        jobset = copy.deepcopy(made)
        jobset["metadata"]["name"] = "w" * length
        job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
        job["parallelism"] = job["completions"] = 12
        try:
            cluster.client.apply(jobset, dry_run=True)
        except Refused as refused:
            taken.append(str(refused))
        else:
            taken.append("")

    assert taken[0] == ""
    assert "JobSet name is too long" in taken[1]


@pytest.mark.claim("runtime-comes-first")
def test_the_webhook_refuses_a_train_job_without_its_runtime(cluster: Ground, units: dict[str, Unit]) -> None:
    cluster.ensure(*CONTROLLERS_OF["trainer.kubeflow.org", "TrainJob"])
    job = copy.deepcopy(workload_of(units["TrainJob"]).object.data)
    job["spec"]["runtimeRef"]["name"] = "torch-of-another-fabric"

    with pytest.raises(Refused, match="not found"):
        cluster.client.apply(job, dry_run=True)


LEVELS = ("privileged", "baseline", "restricted")


@pytest.mark.claim("fabric-passes-its-namespace")
@pytest.mark.parametrize(("fabric", "allowed"), [("rdma", LEVELS[:1]), ("ethernet", LEVELS)])
def test_the_pod_security_levels_that_take_the_pods_of_a_fabric(
    cluster: Ground, units: dict[str, Unit], fabric: str, allowed: tuple[str, ...]
) -> None:
    sheet = yaml.safe_load((HOME / "overlays" / fabric / "fabric.yaml").read_text())
    pod_set = next(each for each in workload_of(units["JobSet"]).pod_sets)
    container = {"name": "rank", "image": "trainer", "securityContext": sheet["spec"]["securityContext"]}
    spec = {"securityContext": pod_set.spec["securityContext"], "containers": [container]}

    for level in LEVELS:
        labels = {"pod-security.kubernetes.io/enforce": level}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{fabric}-{level}", "labels": labels}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        cluster.client.apply(space)
        cluster.client.apply({**account, "metadata": {"namespace": f"{fabric}-{level}", "name": "default"}})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": f"{fabric}-{level}", "name": "rank"}}
        if level in allowed:
            cluster.client.create({**pod, "spec": spec}, dry_run=True)
            continue
        with pytest.raises(Refused, match="violates PodSecurity"):
            cluster.client.create({**pod, "spec": spec}, dry_run=True)
