"""base/jobset: one job.yaml as a JobSet."""

from pathlib import Path

import pytest

from tests.bases.renders import CLUSTERS, OLD, moves_by_one_line, renders_as_recorded_by, renders_whole


@pytest.mark.claim("jobset-gives")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_renders_whole(root: Path, cluster: str) -> None:
    jobset = renders_whole(root, "jobset", cluster).one("JobSet")

    assert jobset["metadata"]["name"] == "whale-song"
    assert jobset["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 7
    [node] = jobset["spec"]["replicatedJobs"]
    job = node["template"]["spec"]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (3, 3, 0)
    assert job["template"]["metadata"]["labels"] == {"trainyard.dev/job": "whale-song"}
    [container] = job["template"]["spec"]["containers"]
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("3", "8")
    assert (env["RENDEZVOUS_HOST"], env["RENDEZVOUS_PORT"]) == ("$(JOB)-node-0-0.$(JOB)", "29555")
    assert env["JOB"] == "whale-song"


def test_variables_stand_behind_those_they_name(root: Path) -> None:
    jobset = renders_whole(root, "jobset", "gpu-east").one("JobSet")

    [container] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    names = [variable["name"] for variable in container["env"]]
    for index, variable in enumerate(container["env"]):
        for name in names:
            if f"$({name})" in variable["value"]:
                assert names.index(name) < index


@pytest.mark.slow_build
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_old_kustomize_gives_the_same_bytes(root: Path, version: str, cluster: str) -> None:
    renders_as_recorded_by(root, version, "jobset", cluster)


def test_a_job_moves_here_by_one_line(root: Path) -> None:
    moves_by_one_line(root, "jobset")
