"""Plain manifests with fewer nodes and ranks: all that says how many changes together, or nothing does."""

from pathlib import Path

import pytest

from tests.rehearse.rehearsing import HOME, rehearse, said
from tests.workload.manifests import unit
from trainyard.errors import InputError
from trainyard.kustomize.render import render
from trainyard.rehearse.load import load
from trainyard.rehearse.scale import Scale
from trainyard.rehearse.smaller import NotScaled, smaller
from trainyard.rules.common.world import ranks
from trainyard.workload.model import Workload
from trainyard.workload.of_unit import workloads

INPUTS = HOME / "tests" / "workload" / "inputs"
ARTICLES = HOME / "tests" / "articles"
SHELL = """
apiVersion: batch/v1
kind: Job
metadata: {name: vit, namespace: vision}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    spec:
      containers:
      - name: trainer
        image: vit
        command: [sh, -c]
        args: ["set -e; exec torchrun --nnodes 4 --nproc-per-node=8 train.py --layers 4"]
        resources: {limits: {nvidia.com/gpu: "8"}}
"""


def scaled(manifests: str, scale: Scale) -> Workload:
    found = unit(manifests)
    (job,) = workloads(found)
    return smaller(found, job, scale)


@pytest.mark.parametrize(
    "file",
    [
        ARTICLES / "indexed-job.yaml",
        ARTICLES / "mpijob.yaml",
        ARTICLES / "pytorchjob.yaml",
        INPUTS / "jobset-one-job.yaml",
        INPUTS / "pytorchjob-elastic.yaml",
        INPUTS / "pytorchjob-master.yaml",
    ],
    ids=lambda file: file.stem,
)
@pytest.mark.parametrize(("asked", "nodes", "per_node"), [(Scale(), 2, 2), (Scale(3, 1), 3, 1), (Scale(2), 2, 2)])
def test_a_job_is_scaled(file: Path, asked: Scale, nodes: int, per_node: int) -> None:
    job = scaled(file.read_text(), asked)

    trains = [each for each in job.pod_sets if each.role != "launcher"]
    assert sum(each.count.value for each in trains) == nodes
    assert [main.gpus for each in trains if (main := each.main())] == [per_node] * len(trains)
    assert ranks(job) == nodes * per_node


def test_a_command_line_within_a_script_is_changed_and_no_other_number() -> None:
    job = scaled(SHELL, Scale())

    container = job.pod_sets[0].containers[0]
    assert container.data["args"] == ["set -e; exec torchrun --nnodes 2 --nproc-per-node=2 train.py --layers 4"]
    assert job.object.data["spec"]["completions"] == job.object.data["spec"]["parallelism"] == 2


def test_a_small_job_stays_as_it_is() -> None:
    small = SHELL.replace(": 4", ": 2").replace("nnodes 4", "nnodes 2").replace("=8", "=1").replace('"8"', '"1"')

    assert scaled(small, Scale()).object.data == unit(small).objects[0].data


@pytest.mark.claim("not-scaled-by-a-guess")
@pytest.mark.parametrize(
    ("manifests", "reason"),
    [
        (SHELL.replace("--nnodes 4", "--nnodes 5"), "nnodes is 5, and the pods come to 4"),
        (SHELL.replace("per-node=8", "per-node=4"), "its launcher starts 16 ranks, and 4 pods of 8 GPUs are 32"),
        (SHELL.replace("--nnodes 4", "--nnodes 4 --nnodes 4"), "where nnodes is written cannot be told"),
        ((INPUTS / "jobset.yaml").read_text(), "its nodes are replicas times parallelism"),
        ((INPUTS / "rayjob.yaml").read_text(), "a RayJob of ray.io/v1 is not scaled from plain manifests"),
        ((INPUTS / "volcano-mpi.yaml").read_text(), "a Job of batch.volcano.sh/v1alpha1 is not scaled"),
    ],
    ids=["nnodes", "ranks", "twice", "jobset", "ray", "volcano"],
)
def test_what_would_need_a_guess_is_not_scaled(manifests: str, reason: str) -> None:
    with pytest.raises(NotScaled, match=reason):
        scaled(manifests, Scale())


@pytest.mark.claim("not-scaled-by-a-guess")
def test_it_runs_as_written_and_says_why_unless_a_size_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SHELL.replace("--nnodes 4", "--nnodes 5"))

    loaded = load(tmp_path, "job.yaml", tmp_path, Scale(), tmp_path / "work")

    assert (loaded.workload.pods, loaded.size) == (4, "nnodes is 5, and the pods come to 4")
    with pytest.raises(InputError, match="cannot be rehearsed at another size than its own: nnodes is 5"):
        load(tmp_path, "job.yaml", tmp_path, Scale(2, 2), tmp_path / "work")


@pytest.mark.long
@pytest.mark.rehearsal
@pytest.mark.root
def test_manifests_of_the_trainer_are_scaled_and_their_grace_is_shorter_than_a_save_on_a_slow_disk(
    tmp_path: Path,
) -> None:
    (rendering,) = render(HOME, ["jobs/research/gpt2-124m"], with_yaml=True)
    manifests = rendering.yaml.replace("terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 8")
    assert manifests != rendering.yaml
    (tmp_path / "job.yaml").write_text(manifests)

    found = rehearse(
        "job.yaml", "--gpus-per-node", "1", "--chaos", "slow-disk=160Ki@3", "--chaos", "preempt@8", cwd=tmp_path
    )

    assert found.code == 1, said(found)
    assert (len(found.document["rehearsal"]["pods"]), found.document["rehearsal"]["full_pods"]) == (2, 4)
    assert [each for each in found.findings if "which takes 160.0 KiB a second, and was not over" in each], said(found)
    assert found.runs[0]["ending"] == "succeeded"
    assert max(map(int, found.runs[0]["losses"])) == 48
