"""base/trainjob and base/runtime: one job.yaml as a TrainJob, in the runtime that its cluster has for its fabric."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bases.renders import (
    CLUSTERS,
    HOME,
    OLD,
    SNAPSHOTS,
    hold,
    moves_by_one_line,
    rendered,
    renders_as_recorded_by,
    renders_whole,
    stock,
    write_job,
)

FABRICS = {"gpu-east": "rdma", "lab-west": "ethernet"}
SETTINGS = ("trainer", "nccl", "env")


@pytest.mark.claim("trainjob-gives")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    job = renders_whole(root, "trainjob", cluster).one("TrainJob")

    assert job["metadata"]["name"] == "whale-song"
    assert job["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    assert job["spec"]["runtimeRef"] == {"name": f"torch-{FABRICS[cluster]}"}
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (3, 8)
    assert trainer["args"] == ["torchrun", "-m", "trainer"]
    assert trainer["env"] == [
        {"name": "JOB", "value": "whale-song"},
        {"name": "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "value": "100"},
    ]
    pod = pods_of(job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"])
    assert pod["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
    assert pod["spec"]["serviceAccountName"] == "whale-song"
    mounted = {volume["name"]: volume.get("configMap", {}).get("name") for volume in pod["spec"]["volumes"]}
    assert {name: mounted[f"settings-{name}"] for name in SETTINGS} == {name: f"whale-song-{name}" for name in SETTINGS}


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "trainjob", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "trainjob")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_clusters_runtime_renders_whole(cluster: str) -> None:
    folder = f"clusters/{cluster}/platform/runtimes"

    found = rendered(HOME, folder)

    hold(f"runtime-{cluster}", found.yaml)
    assert stock(HOME, HOME / ".tools" / "bin" / "kustomize", folder) == found.yaml
    assert "training-job" not in found.yaml
    [runtime] = found.objects
    assert runtime["metadata"]["name"] == f"torch-{FABRICS[cluster]}"


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_runtime(version: str, cluster: str) -> None:
    program = HOME / ".tools" / "old" / f"kustomize-{version}"

    built = stock(HOME, program, f"clusters/{cluster}/platform/runtimes")

    assert built == (SNAPSHOTS / f"runtime-{cluster}.yaml").read_text()


@pytest.mark.claim("runtime-of-each-fabric")
@pytest.mark.parametrize("cluster", sorted(folder.name for folder in (HOME / "clusters").iterdir()))
def test_every_cluster_has_the_runtime_of_its_fabric(cluster: str) -> None:
    objects = rendered(HOME, f"clusters/{cluster}/platform").objects
    [fabric] = [item for item in rendered_facts(cluster) if item["kind"] == "Fabric"]

    runtimes = [item["metadata"]["name"] for item in objects if item["kind"] == "ClusterTrainingRuntime"]

    assert runtimes == [f"torch-{fabric['metadata']['name']}"]


@pytest.mark.claim("trainjob-two-halves")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_job_and_runtime_agree_on_what_both_say(root: Path, cluster: str) -> None:
    write_job(root, "trainjob", cluster)
    job = rendered(root).one("TrainJob")["spec"]
    patch = pods_of(job["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"])["spec"]
    runtime = rendered(root, f"clusters/{cluster}/platform/runtimes").one("ClusterTrainingRuntime")["spec"]
    pod = pods_of(runtime["template"]["spec"])["spec"]
    [theirs], [ours] = pod["containers"], patch["containers"]

    for field in ("terminationGracePeriodSeconds", "nodeSelector", "tolerations", "securityContext"):
        assert patch[field] == pod[field]
    assert job["trainer"]["resourcesPerNode"] == theirs["resources"]
    assert ours["securityContext"] == theirs["securityContext"]
    assert [mount for mount in ours["volumeMounts"] if mount in theirs["volumeMounts"]] == theirs["volumeMounts"]
    assert [volume for volume in patch["volumes"] if volume in pod["volumes"]] == pod["volumes"]


@pytest.mark.claim("runtime-makes-variables")
def test_the_runtime_makes_variables_of_settings(tmp_path: Path) -> None:
    for folder, settings in {
        "trainer": {"TRAINER_RUN": "whale song", "SHARED": "first"},
        "nccl": {"NCCL_SOCKET_IFNAME": "eth0", "SHARED": "second"},
        "env": {"SHARED": "last", "QUOTED": "a 'b' \"c\" $HOME `d`"},
    }.items():
        for name, value in settings.items():
            mounted(tmp_path / folder, name, value)

    found = start(tmp_path, "sh", "-c", 'echo "$TRAINER_RUN/$NCCL_SOCKET_IFNAME/$SHARED/$QUOTED/$1"', "sh", "--flag")

    assert found.returncode == 0
    assert found.stdout == "whale song/eth0/last/a 'b' \"c\" $HOME `d`/--flag\n"


def test_the_runtime_runs_a_program_without_settings(tmp_path: Path) -> None:
    assert start(tmp_path, "echo", "done").stdout == "done\n"


def test_the_runtime_fails_where_a_job_names_no_program(tmp_path: Path) -> None:
    found = start(tmp_path)

    assert found.returncode != 0
    assert "spec.trainer.args" in found.stderr


def pods_of(jobset: Any) -> Any:
    """The pod template of the one replicatedJob."""
    [node] = jobset["replicatedJobs"]
    assert node["name"] == "node"
    return node["template"]["spec"]["template"]


def rendered_facts(cluster: str) -> list[Any]:
    """Facts of a cluster, which kustomize builds nothing of, read where its fabric's folder is named."""
    import yaml

    facts = HOME / "clusters" / cluster / "facts"
    listed = yaml.safe_load((facts / "kustomization.yaml").read_text())["resources"]
    fabrics = [(facts / entry / "fabric.yaml").resolve() for entry in listed if (facts / entry).is_dir()]
    return [yaml.safe_load(file.read_text()) for file in fabrics]


def mounted(folder: Path, name: str, value: str) -> None:
    """A key of a ConfigMap as the kubelet mounts it: a link to a file in a folder that is not to be seen."""
    hidden = folder / "..data"
    hidden.mkdir(parents=True, exist_ok=True)
    (hidden / name).write_text(value)
    (folder / name).symlink_to(f"..data/{name}")


def start(settings: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The runtime's command with a TrainJob's arguments, and settings in a folder of its own."""
    runtime = rendered(HOME, "clusters/gpu-east/platform/runtimes").one("ClusterTrainingRuntime")
    [container] = pods_of(runtime["spec"]["template"]["spec"])["spec"]["containers"]
    command = [word.replace("/etc/trainyard", str(settings)) for word in container["command"]]
    return subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
