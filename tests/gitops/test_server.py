"""Argo CD's and Flux's objects on a real API server, and their health checks on jobs that real controllers run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.harness import CONTROLLERS_OF, Ground, finish, ground, node_named
from tests.controlplane.owned import owned
from tests.gitops.folders import CLUSTERS, KINDS, Json, objects, teams
from tests.gitops.health import argo_cd_says, flux_says
from trainyard.controlplane import Refused, running
from trainyard.controlplane.definitions import load_definitions

pytestmark = pytest.mark.controlplane

RUNS = sorted((Path(__file__).parent / "runs").glob("*.yaml"))
NAMESPACE = "research"


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_the_server_takes_every_object_of_every_cluster() -> None:
    items = [item for cluster in CLUSTERS for kind in KINDS for item in objects(cluster, kind)]
    with running() as plane, contextlib.closing(plane.client()) as client:
        load_definitions(client, {(item.api_version, item.kind) for item in items})
        for name in sorted({"argocd", "flux-system", *(team for cluster in CLUSTERS for team in teams(cluster))}):
            client.apply(namespace(name))

        warnings = [answer.warnings for item in items if (answer := client.apply(item.data, dry_run=True)).warnings]

    assert warnings == []


@pytest.fixture(scope="module")
def plane() -> Iterator[Ground]:
    with ground() as made:
        made.client.apply(namespace(NAMESPACE))
        made.add_node(node_named("node-0", {"cpu": "64", "memory": "512Gi"}))
        yield made


@pytest.fixture(params=RUNS, ids=lambda file: file.stem)
def job(plane: Ground, request: pytest.FixtureRequest) -> Iterator[Json]:
    """A job of each kind, suspended as Kueue suspends it."""
    first, *others = yaml.safe_load_all(request.param.read_text())
    item: Json = first
    group, _, _ = item["apiVersion"].rpartition("/")
    plane.ensure(*CONTROLLERS_OF[group, item["kind"]])
    for data in (*others, item):
        plane.client.apply(data)
    yield item
    for data in (item, *others):
        with contextlib.suppress(Refused):
            plane.client.delete(data)


def says(plane: Ground, job: Json) -> tuple[str, str]:
    """What Argo CD and Flux call the job as it is now."""
    live = plane.client.get(job)
    return argo_cd_says([live])[0]["status"], flux_says([live])[0].get("status", "")


def wait(plane: Ground, job: Json, argo_cd: str, flux: str) -> None:
    plane.client.until(f"{argo_cd} and {flux} of {job['kind']}", lambda: says(plane, job) == (argo_cd, flux), 60)


def suspend(plane: Ground, job: Json, value: bool) -> None:
    """What Kueue does when it admits a job, or takes its admission back."""
    kind = job["kind"]
    change: Json = {"suspend": value}
    if "runPolicy" in job["spec"]:
        change = {"runPolicy": change}
    plane.client.patch(job, {"spec": change}, manager=f"kueue-{kind}")


def pods(plane: Ground, job: Json) -> list[Json]:
    return [pod for pod in owned(plane.client, job, "v1", "Pod") if "deletionTimestamp" not in pod["metadata"]]


def run_all(plane: Ground, job: Json) -> list[Json]:
    """Resume the job, and wait until its pods run."""
    suspend(plane, job, False)

    def at_work() -> list[Json] | None:
        found = pods(plane, job)
        all_run = all(pod["status"].get("phase") == "Running" for pod in found)
        return found if len(found) > 1 and deciding(job, found) and all_run else None

    found: list[Json] = plane.client.until(f"running pods of {job['kind']}", at_work)
    return found


def deciding(job: Json, found: list[Json]) -> list[Json]:
    """The pods whose end is the job's: the launcher's of an MPIJob, else every one."""
    return [pod for pod in found if "-launcher-" in pod["metadata"]["name"]] if job["kind"] == "MPIJob" else found


def test_from_the_queue_to_the_end(plane: Ground, job: Json) -> None:
    wait(plane, job, "Suspended", "Current")

    found = run_all(plane, job)
    wait(plane, job, "Progressing", "Current")

    for pod in deciding(job, found):
        finish(plane.client, pod)
    wait(plane, job, "Healthy", "Current")


def test_back_to_the_queue(plane: Ground, job: Json) -> None:
    run_all(plane, job)
    wait(plane, job, "Progressing", "Current")

    suspend(plane, job, True)

    wait(plane, job, "Suspended", "Current")


def test_a_failure(plane: Ground, job: Json) -> None:
    found = run_all(plane, job)

    finish(plane.client, deciding(job, found)[0], phase="Failed", exit_code=1)

    wait(plane, job, "Degraded", "Failed")
    assert argo_cd_says([plane.client.get(job)])[0]["message"], "somebody must be told why"
