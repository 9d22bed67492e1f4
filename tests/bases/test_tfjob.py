"""base/tfjob: one job.yaml as a TFJob."""

from pathlib import Path

import pytest

from tests.bases.renders import CLUSTERS, OLD, moves_by_one_line, renders_as_recorded_by, renders_whole


@pytest.mark.claim("tfjob-gives")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    job = renders_whole(root, "tfjob", cluster).one("TFJob")

    assert job["metadata"]["name"] == "whale-song"
    assert job["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    assert job["spec"]["runPolicy"] == {"backoffLimit": 7, "cleanPodPolicy": "Running"}
    assert list(job["spec"]["tfReplicaSpecs"]) == ["Worker"]
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "OnFailure")
    assert worker["template"]["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
    [container] = worker["template"]["spec"]["containers"]
    assert container["name"] == "tensorflow"
    assert container["command"] == ["python", "-m", "trainer.tensorflow"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "tfjob-port": 29555,
        "metrics": 9191,
    }


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "tfjob", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "tfjob")
