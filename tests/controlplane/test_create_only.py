"""A job is created once and never edited: what the design promises, played through against the API server."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.controlplane.harness import Ground, finish, ground_for, unit_of, workload_of
from trainyard.controlplane import Refused
from trainyard.controlplane.client import STRATEGIC, Client
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.verify.dry_run import gitops

pytestmark = pytest.mark.controlplane

JOB = "jobs/research/gpt2-124m"
NAMESPACE = "research"
CREATE_ONLY = ("kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent")
FLUX = "kustomize-controller"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def unit() -> Unit:
    return unit_of(JOB)


@pytest.fixture(scope="module")
def ground(unit: Unit) -> Iterator[Ground]:
    with ground_for(unit) as made:
        for item in unit.objects:
            if item.kind != "Job":
                made.client.apply(item.data)
        made.provision(NAMESPACE)
        yield made


@dataclass(frozen=True, slots=True)
class Run:
    """A job of a name of its own, created as Argo CD would."""

    ground: Ground
    data: Json

    @property
    def client(self) -> Client:
        return self.ground.client

    def live(self) -> Json:
        return self.client.get(self.data)

    def pods(self) -> list[Json]:
        """Pods that are not on their way out."""
        selector = f"batch.kubernetes.io/job-name={self.data['metadata']['name']}"
        pods = self.client.list("v1", "Pod", NAMESPACE, selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def active(self) -> list[Json]:
        return [pod for pod in self.pods() if pod["status"].get("phase") == "Running"]

    def wait(self, what: str, check: Callable[[], Any]) -> Any:
        return self.client.until(what, check)

    def condition(self) -> str:
        """The condition that ended the job, if one did."""
        conditions = self.live()["status"].get("conditions", [])
        return next(
            (
                each["type"]
                for each in conditions
                if each["type"] in ("Complete", "Failed") and each["status"] == "True"
            ),
            "",
        )


@pytest.fixture
def run(ground: Ground, unit: Unit) -> Iterator[Run]:
    """A job that runs, on two nodes."""
    data = copy.deepcopy(job_of(unit).data)
    data["spec"] |= {"completions": 2, "parallelism": 2}
    made = Run(ground, data)
    ground.client.acting_as(gitops("research")).apply(data)
    made.wait("two running pods", lambda: len(made.active()) == 2)
    yield made
    with contextlib.suppress(Refused):
        ground.client.delete(data)
    made.wait("end of the job's pods", lambda: not made.pods())


def job_of(unit: Unit) -> Object:
    return workload_of(unit).object


def edited(data: Json) -> Json:
    """The job after somebody edited base/: another grace period and another variable."""
    changed = copy.deepcopy(data)
    changed["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 240
    changed["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "NEW", "value": "1"})
    return changed


def there(client: Client, data: Json) -> bool:
    """Whether the server has an object."""
    try:
        client.get(data)
    except Refused:
        return False
    return True


def apply_as_flux(client: Client, data: Json) -> str:
    """What kustomize-controller does: server-side apply, but for what says IfNotPresent and is there."""
    key, value = CREATE_ONLY
    if data["metadata"].get("annotations", {}).get(key) == value and there(client, data):
        return "left alone"
    client.apply(data, manager=FLUX)
    return "applied"


def apply_as_argo_cd(client: Client, data: Json) -> None:
    """What Argo CD does without server-side apply: the three-way merge of kubectl, kept in an annotation."""
    import json

    wanted = copy.deepcopy(data)
    wanted["metadata"].setdefault("annotations", {})[LAST_APPLIED] = json.dumps(data)
    try:
        live = client.get(data)
    except Refused:
        client.create(wanted)
        return
    before = json.loads(live["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
    client.patch(data, three_way(before, wanted, live), kind=STRATEGIC)


def three_way(before: Any, wanted: Json, live: Json) -> Json:
    """The patch that gives `live` what is wanted and takes from it what was wanted before and is no longer."""
    patch: Json = {}
    for key, value in wanted.items():
        there = live.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            inner = three_way(before.get(key) if isinstance(before, dict) else None, value, there)
            if inner:
                patch[key] = inner
        elif value != there:
            patch[key] = value
    gone = set(before if isinstance(before, dict) else ()) - set(wanted)
    return patch | dict.fromkeys(gone)


def test_the_job_says_that_it_is_created_once(unit: Unit) -> None:
    key, value = CREATE_ONLY

    assert job_of(unit).data["metadata"]["annotations"][key] == value


@pytest.mark.claim("created-once")
def test_an_edit_is_refused_by_server_side_apply(run: Run) -> None:
    before = run.live()

    with pytest.raises(Refused, match="field is immutable"):
        run.client.apply(edited(run.data), manager=FLUX)

    assert run.live()["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.mark.claim("created-once")
def test_an_edit_is_refused_by_three_way_apply(run: Run) -> None:
    with pytest.raises(Refused, match="field is immutable"):
        apply_as_argo_cd(run.client, edited(run.data))


@pytest.mark.claim("created-once")
def test_flux_leaves_a_job_alone_that_is_there(run: Run) -> None:
    before = run.live()

    assert apply_as_flux(run.client, edited(run.data)) == "left alone"

    assert run.live()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert len(run.active()) == 2


def test_flux_creates_a_job_that_is_not_there(run: Run) -> None:
    run.client.delete(run.data)
    run.wait("end of the job", lambda: not run.pods())

    assert apply_as_flux(run.client, edited(run.data)) == "applied"

    run.wait("two running pods", lambda: len(run.active()) == 2)


def test_the_same_manifest_again_changes_nothing(run: Run) -> None:
    apply_as_argo_cd(run.client, run.data)
    before = run.live()

    apply_as_argo_cd(run.client, run.data)
    run.client.apply(run.data)

    after = run.live()
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert len(run.active()) == 2


def test_deletion_ends_every_pod(run: Run) -> None:
    run.client.acting_as(gitops("research")).delete(run.data)

    run.wait("end of the pods", lambda: not run.pods())
    with pytest.raises(Refused) as gone:
        run.live()
    assert gone.value.code == 404


@pytest.mark.claim("claims-outlive-mistakes")
def test_its_claim_outlives_it_and_argo_cd_may_not_delete_it(run: Run, unit: Unit) -> None:
    (claim,) = (item for item in unit.objects if item.kind == "PersistentVolumeClaim")

    with pytest.raises(Refused, match="cannot delete resource"):
        run.client.acting_as(gitops("research")).delete(claim.data)

    annotations = run.client.get(claim.data)["metadata"]["annotations"]
    assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
    assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


def test_it_is_complete_when_every_rank_is(run: Run) -> None:
    first, second = run.active()
    finish(run.client, first)
    run.wait("one success", lambda: run.live()["status"].get("succeeded") == 1)
    assert run.condition() == ""

    finish(run.client, second)

    run.wait("completion", run.condition)
    assert run.condition() == "Complete"
    assert run.live()["spec"].get("ttlSecondsAfterFinished") is None, (
        "it would be gone, and created again by the next sync"
    )


@pytest.mark.claim("finished-stays")
def test_a_finished_job_is_not_run_again_by_a_sync(run: Run) -> None:
    for pod in run.active():
        finish(run.client, pod)
    run.wait("completion", run.condition)

    apply_as_argo_cd(run.client, run.data)
    apply_as_flux(run.client, run.data)

    assert run.condition() == "Complete"
    assert run.active() == []


@pytest.mark.claim("failed-pod-replaced")
def test_a_failed_pod_is_replaced_under_its_own_rank(run: Run) -> None:
    first = min(run.active(), key=lambda pod: pod["metadata"]["name"])

    finish(run.client, first, phase="Failed", exit_code=1)

    def replaced() -> bool:
        return {pod["spec"]["hostname"] for pod in run.active()} == hostnames and run.live()["status"].get(
            "failed"
        ) == 1

    hostnames = {f"{run.data['metadata']['name']}-{index}" for index in range(2)}
    run.wait("pod in its place", replaced)
    assert first["metadata"]["name"] not in {pod["metadata"]["name"] for pod in run.active()}


def test_a_preempted_pod_does_not_count_as_a_failure(run: Run) -> None:
    first, other = run.active()

    finish(run.client, first, phase="Failed", exit_code=143, disrupted=True)

    names = {other["metadata"]["name"]}
    run.wait(
        "pod in its place", lambda: len(run.active()) == 2 and {p["metadata"]["name"] for p in run.active()} > names
    )
    assert not run.live()["status"].get("failed")


def test_it_fails_when_its_patience_is_used_up(ground: Ground, unit: Unit) -> None:
    data = copy.deepcopy(job_of(unit).data)
    data["metadata"]["name"] = "no-patience"
    data["spec"] |= {"completions": 2, "parallelism": 2, "backoffLimit": 0}
    run = Run(ground, data)
    ground.client.apply(data)
    run.wait("two running pods", lambda: len(run.active()) == 2)

    finish(ground.client, run.active()[0], phase="Failed", exit_code=1)

    run.wait("failure", run.condition)
    assert run.condition() == "Failed"
    run.wait("end of the other rank", lambda: not run.active())
    ground.client.delete(data)


def test_suspension_ends_the_pods_and_resuming_brings_every_rank_back(run: Run) -> None:
    before = {pod["metadata"]["name"] for pod in run.active()}

    run.client.patch(run.data, {"spec": {"suspend": True}}, manager="kueue")
    run.wait("end of the pods", lambda: not run.active())
    run.client.apply(run.data)
    assert run.live()["spec"]["suspend"] is True, "a sync does not resume what a queue suspended"

    run.client.patch(run.data, {"spec": {"suspend": False}}, manager="kueue")
    run.wait("two running pods", lambda: len(run.active()) == 2)
    assert before.isdisjoint(pod["metadata"]["name"] for pod in run.active())
