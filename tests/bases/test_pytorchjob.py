"""base/pytorchjob and base/elastic: one job.yaml as a PyTorchJob."""

from pathlib import Path
from typing import Any

import pytest

from tests.bases.renders import (
    CLUSTERS,
    HOME,
    JOB,
    MOVED,
    OLD,
    hold,
    moves_by_one_line,
    rendered,
    renders_as_recorded_by,
    renders_whole,
    stock,
    write_job,
)
from tests.planted.checkout import Checkout

SHRINKS = """\
  elastic:
    minNodes: 2
    maxRestarts: 5
"""


@pytest.mark.claim("pytorchjob-gives")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    job = renders_whole(root, "pytorchjob", cluster).one("PyTorchJob")

    assert job["metadata"]["name"] == "whale-song"
    assert job["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    spec = job["spec"]
    assert spec["nprocPerNode"] == "8"
    assert spec["runPolicy"] == {"backoffLimit": 7, "cleanPodPolicy": "Running"}
    policy = {"rdzvBackend": "c10d", "rdzvId": "whale-song", "minReplicas": 3, "maxReplicas": 3}
    assert spec["elasticPolicy"] == policy
    assert list(spec["pytorchReplicaSpecs"]) == ["Worker"]
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "OnFailure")
    assert worker["template"]["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
    container = only_container(worker)
    assert container["name"] == "pytorch"
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "pytorchjob-port": 29555,
        "metrics": 9191,
    }


def test_leaves_the_operators_variables_to_the_operator(root: Path) -> None:
    job = renders_whole(root, "pytorchjob", "gpu-east").one("PyTorchJob")

    container = only_container(job["spec"]["pytorchReplicaSpecs"]["Worker"])
    assert [variable["name"] for variable in container["env"]] == ["JOB", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "pytorchjob", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "pytorchjob")


def test_shrinks_as_far_as_job_yaml_says_where_the_component_is_listed(root: Path) -> None:
    write_job(root, "pytorchjob", "lab-west", components=("elastic",), spec=SHRINKS)

    found = rendered(root)

    hold("pytorchjob-elastic-lab-west", found.yaml)
    assert stock(root, HOME / ".tools" / "bin" / "kustomize") == found.yaml
    policy = found.one("PyTorchJob")["spec"]["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"], policy["maxRestarts"]) == (2, 3, 5)


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
def test_old_kustomize_shrinks_as_far(root: Path, version: str) -> None:
    write_job(root, "pytorchjob", "lab-west", components=("elastic",), spec=SHRINKS)

    program = HOME / ".tools" / "old" / f"kustomize-{version}"
    hold("pytorchjob-elastic-lab-west", stock(root, program))


def test_does_not_shrink_where_the_component_is_not_listed(root: Path) -> None:
    write_job(root, "pytorchjob", "lab-west", spec=SHRINKS)

    policy = rendered(root).one("PyTorchJob")["spec"]["elasticPolicy"]

    assert (policy["minReplicas"], policy["maxReplicas"]) == (3, 3)
    assert "maxRestarts" not in policy


def test_an_elastic_job_is_clean(root: Path) -> None:
    checkout = Checkout(root)
    checkout.replace(f"{MOVED}/kustomization.yaml", "base/torchrun", "base/pytorchjob")
    checkout.replace(f"{MOVED}/kustomization.yaml", "patches:\n", "components:\n- ../../../base/elastic\npatches:\n")
    checkout.append(f"{MOVED}/job.yaml", "  elastic:\n    minNodes: 2\n")

    code, document = checkout.lint(MOVED)

    assert document["findings"] == []
    assert code == 0


def test_elastic_is_refused_where_the_launcher_knows_no_such_thing(root: Path) -> None:
    write_job(root, "torchrun", "lab-west", components=("elastic",))

    code, document = Checkout(root).lint(JOB)

    assert code == 1
    assert [(each["rule"], each["file"], each["message"]) for each in document["findings"]] == [
        (
            "CTR030",
            f"{JOB}/kustomization.yaml",
            "base/elastic changes an object of kind PyTorchJob, and base/torchrun makes none",
        )
    ]


def only_container(replica: Any) -> Any:
    """The one container of a replica type."""
    [container] = replica["template"]["spec"]["containers"]
    return container
