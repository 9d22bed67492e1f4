"""base/rayjob: one job.yaml as a RayJob."""

from pathlib import Path
from typing import Any

import pytest

from tests.bases.renders import CLUSTERS, OLD, moves_by_one_line, renders_as_recorded_by, renders_whole


@pytest.mark.claim("rayjob-gives", "no-tokens")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    job = renders_whole(root, "rayjob", cluster).one("RayJob")

    assert job["metadata"]["name"] == "whale-song"
    assert job["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    assert (job["spec"]["backoffLimit"], job["spec"]["shutdownAfterJobFinishes"]) == (7, True)
    ray = job["spec"]["rayClusterSpec"]
    assert "enableInTreeAutoscaling" not in ray
    [group] = ray["workerGroupSpecs"]
    assert (group["minReplicas"], group["replicas"], group["maxReplicas"]) == (3, 3, 3)
    assert group["rayStartParams"]["num-gpus"] == "8"
    for template in templates(job):
        assert template["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
        assert template["spec"]["serviceAccountName"] == "whale-song"
        assert template["spec"]["automountServiceAccountToken"] is False


def test_no_rank_is_placed_on_the_head_which_is_told_how_many_to_ask_for(root: Path) -> None:
    job = renders_whole(root, "rayjob", "gpu-east").one("RayJob")

    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    [container] = head["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert not {"nodeSelector", "tolerations"} & set(head["template"]["spec"])
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (env["TRAINER_NODES"], env["TRAINER_GPUS_PER_NODE"]) == ("3", "8")
    read = [source["configMapRef"]["name"] for source in container["envFrom"]]
    assert read == ["whale-song-trainer", "whale-song-env"]


def test_the_program_of_the_job_is_submitted_word_by_word(root: Path) -> None:
    job = renders_whole(root, "rayjob", "gpu-east").one("RayJob")

    [submitter] = job["spec"]["submitterPodTemplate"]["spec"]["containers"]
    assert submitter["args"] == ["python", "-m", "trainer.ray"]
    assert '-- "$@"' in submitter["command"][2]


@pytest.mark.claim("who-reaches-a-ray-head")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_operator_reaches_the_dashboard_of_the_head_and_no_more(root: Path, cluster: str) -> None:
    found = renders_whole(root, "rayjob", cluster)

    policy = next(item for item in found.objects if item["metadata"]["name"] == "whale-song-dashboard")
    labels = {"trainyard.dev/job": "whale-song", "ray.io/node-type": "head"}
    assert policy["spec"]["podSelector"] == {"matchLabels": labels}
    [rule] = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "dashboard"}]
    [peer] = rule["from"]
    assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray-system"}}}


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "rayjob", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "rayjob")


def templates(job: Any) -> list[Any]:
    ray = job["spec"]["rayClusterSpec"]
    return [
        job["spec"]["submitterPodTemplate"],
        ray["headGroupSpec"]["template"],
        *(group["template"] for group in ray["workerGroupSpecs"]),
    ]
