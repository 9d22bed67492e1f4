"""base/mpijob: one job.yaml as an MPIJob."""

from pathlib import Path
from typing import Any

import pytest

from tests.bases.renders import CLUSTERS, OLD, Rendered, moves_by_one_line, renders_as_recorded_by, renders_whole


@pytest.mark.claim("mpijob-gives")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    job = renders_whole(root, "mpijob", cluster).one("MPIJob")

    assert job["metadata"]["name"] == "whale-song"
    assert job["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    assert job["spec"]["slotsPerWorker"] == 8
    assert job["spec"]["runPolicy"] == {"backoffLimit": 7, "cleanPodPolicy": "Running"}
    launcher, worker = (job["spec"]["mpiReplicaSpecs"][role] for role in ("Launcher", "Worker"))
    assert (launcher["replicas"], worker["replicas"]) == (1, 3)
    for part in (launcher, worker):
        assert part["template"]["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
        assert part["template"]["spec"]["serviceAccountName"] == "whale-song"


def test_ranks_meet_at_worker_0_on_the_port_of_the_job(root: Path) -> None:
    env = environment(trainer(renders_whole(root, "mpijob", "gpu-east"), "Worker"))

    assert env["JOB"] == "whale-song"
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("$(JOB)-worker-0.$(JOB)", "29555")
    assert list(env).index("JOB") < list(env).index("MASTER_ADDR")


def test_the_launcher_starts_the_program_of_the_job_and_takes_nothing_that_training_needs(root: Path) -> None:
    found = renders_whole(root, "mpijob", "gpu-east")

    container = trainer(found, "Launcher")
    assert container["command"] == [
        "mpirun",
        "--hostfile",
        "/etc/mpi/hostfile",
        "--map-by",
        "slot",
        "--bind-to",
        "none",
    ]
    assert container["args"] == ["python", "-m", "trainer"]
    assert container["image"] == trainer(found, "Worker")["image"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    spec = pod(found, "Launcher")
    assert not {"nodeSelector", "tolerations"} & set(spec)
    [wait] = spec["initContainers"]
    assert environment(wait) == {"JOB": "whale-song", "WORKERS": "3", "SSH_PORT": "2222"}
    assert (wait["resources"], wait["securityContext"]) == (container["resources"], container["securityContext"])


def test_the_port_of_sshd_has_one_home(root: Path) -> None:
    found = renders_whole(root, "mpijob", "gpu-east")

    [port] = [port["containerPort"] for port in trainer(found, "Worker")["ports"] if port["name"] == "ssh"]
    told = [trainer(found, "Worker"), trainer(found, "Launcher"), *pod(found, "Launcher")["initContainers"]]
    assert [environment(container)["SSH_PORT"] for container in told] == [str(port)] * 3
    ssh = next(item for item in found.objects if item["metadata"]["name"] == "whale-song-ssh")
    assert str(port) not in "".join(ssh["data"].values())


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "mpijob", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "mpijob")


def pod(found: Rendered, role: str) -> Any:
    return found.one("MPIJob")["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]


def trainer(found: Rendered, role: str) -> Any:
    [container] = pod(found, role)["containers"]
    assert container["name"] == "trainer"
    return container


def environment(container: Any) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}
