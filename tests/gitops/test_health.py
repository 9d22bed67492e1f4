"""What Argo CD and Flux call a job in each state of its life: the checks as delivered, the engines as they run them."""

from pathlib import Path

import pytest
import yaml

from tests.gitops.folders import Json
from tests.gitops.health import argo_cd_checks, argo_cd_says, flux_checks, flux_says
from tests.recorded import hold

HERE = Path(__file__).parent
STATUSES = sorted((HERE / "statuses").glob("*/*.yaml"))
KINDS = sorted({file.parent.name for file in STATUSES})

EXPECTED = {
    "new": ("Progressing", ""),
    "pending": ("Progressing", "Current"),
    "queued": ("Suspended", "Current"),
    "resumed": ("Progressing", "Current"),
    "running": ("Progressing", "Current"),
    "retrying": ("Progressing", "Current"),
    "succeeded": ("Healthy", "Current"),
    "failed": ("Degraded", "Failed"),
    "refused": ("Degraded", "Failed"),
}
"""State: what Argo CD calls it, and what Flux does; nothing where Flux waits for the controller to take the job up."""

OF_ONE_KIND = {
    # Ray's program was stopped before its end: that is no success. Volcano's job was, and can be resumed.
    "ray.io_RayJob/stopped": ("Degraded", "Failed"),
    "batch.volcano.sh_Job/stopped": ("Suspended", "Current"),
}


def loaded(file: Path) -> Json:
    item: Json = yaml.safe_load(file.read_text())
    return item


def name(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


def test_every_kind_is_checked_in_every_state() -> None:
    assert sorted(argo_cd_checks()) == KINDS
    for kind in KINDS:
        states = {file.stem for file in STATUSES if file.parent.name == kind}
        assert states >= {"new", "resumed", "running", "retrying", "succeeded", "failed"}
        assert states & {"queued", "pending"}
        group = kind.partition("_")[0]
        assert {kind, f"{group}_"} & set(flux_checks())


@pytest.mark.slow_build
def test_each_state_is_called_what_it_is() -> None:
    items = [loaded(file) for file in STATUSES]

    said = {
        name(file): (argo_cd["status"], flux.get("status", "") if flux.get("status") != "InProgress" else "")
        for file, argo_cd, flux in zip(STATUSES, argo_cd_says(items), flux_says(items), strict=True)
    }

    assert said == {name(file): OF_ONE_KIND.get(name(file)) or EXPECTED[file.stem] for file in STATUSES}


@pytest.mark.slow_build
def test_messages_are_what_people_read() -> None:
    answers = argo_cd_says([loaded(file) for file in STATUSES])
    width = max(len(name(file)) for file in STATUSES)
    text = "".join(
        f"{name(file):{width}}  {answer['status']}: {answer['message']}\n"
        for file, answer in zip(STATUSES, answers, strict=True)
    )

    hold(HERE / "snapshots" / "health.txt", text)


@pytest.mark.slow_build
def test_a_spec_that_flux_s_controller_has_not_seen_is_in_progress() -> None:
    item = loaded(HERE / "statuses" / "ray.io_RayJob" / "failed.yaml")
    item["metadata"]["generation"] += 1

    assert flux_says([item]) == [{"status": "InProgress"}]


@pytest.mark.slow_build
@pytest.mark.parametrize(
    ("phase", "status"), [("Pending", "Current"), ("Bound", "Current"), ("Lost", "Failed"), (None, "InProgress")]
)
def test_a_claim_may_wait_for_its_first_pod(phase: str | None, status: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "llama-8b-sft-checkpoints"},
        "status": {"phase": phase} if phase else {},
    }

    assert flux_says([claim]) == [{"status": status}]
