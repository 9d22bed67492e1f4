"""This repository's own jobs: every rendered value has a place, and every wire reaches its field."""

from pathlib import Path

import pytest

from tests.kustomize.replay.support import compare
from trainyard.yaml.fieldpath import lookup

REPLICAS = {"MPIJob": "mpiReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}
NODES = {
    "Job": ("spec", "completions"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "completions"),
    "RayJob": ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "replicas"),
    "TrainJob": ("spec", "trainer", "numNodes"),
} | {kind: ("spec", replicas, "Worker", "replicas") for kind, replicas in REPLICAS.items()}
"""Where each kind says how many nodes it takes."""
ROOT = Path(__file__).parents[3]
JOBS = sorted(str(file.parent.relative_to(ROOT)) for file in ROOT.glob("jobs/*/*/kustomization.yaml"))


@pytest.mark.claim("every-value-has-its-line")
@pytest.mark.parametrize("job", JOBS)
def test_every_value_has_a_place(job: str) -> None:
    both = compare(ROOT, job)
    assert both.differences() == []
    assert both.known() == 1.0
    assert {wire.problem for wire in both.replay.wires} <= {"", "no target"}
    assert {fact.plain()["kind"] for fact in both.replay.facts} == {"TrainingJob", "PodTemplate", "Fabric", "Cluster"}


@pytest.mark.parametrize("job", JOBS)
def test_numbers_of_a_job_point_at_its_job_file(job: str) -> None:
    both = compare(ROOT, job)
    [found] = [item for item in both.objects if item.kind in NODES]
    [nodes] = [fact.plain()["spec"]["nodes"] for fact in both.replay.facts if fact.plain()["kind"] == "TrainingJob"]
    assert lookup(found.data, NODES[found.kind]) == nodes
    place = both.at(found, NODES[found.kind])
    assert place == f"{job}/job.yaml: nodes: {nodes} [{nodes}]"
