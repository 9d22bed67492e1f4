"""Manifests as articles on distributed training print them, mistakes kept: each mistake is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import hold
from tests.said import said
from trainyard.lint.cli import main

HOME = Path(__file__).resolve().parents[2]
ARTICLES = Path(__file__).parent
FILES = sorted(file.name for file in ARTICLES.glob("*.yaml"))
POD = "spec.template.spec"
TRAINER = f"{POD}.containers[0]"
WORKER = "spec.pytorchReplicaSpecs.Worker.template.spec"
MPI = "spec.mpiReplicaSpecs"
CHIEF = "spec.tfReplicaSpecs.Chief.template.spec"

MISTAKES = [
    (
        "the headless Service hides pods that are not ready, so rank 0 has no name while it is dialled",
        "indexed-job",
        "RDV005",
        "spec.publishNotReadyAddresses",
    ),
    (
        "a label that reads like gang scheduling, and that no scheduler reads",
        "indexed-job",
        "GNG001",
        "spec.template.metadata.labels[scheduling.k8s.io/pod-group]",
    ),
    (
        "MASTER_ADDR and MASTER_PORT beside torchrun, which sets them itself",
        "indexed-job",
        "RDV011",
        f"{TRAINER}.env[MASTER_ADDR]",
    ),
    (
        "half of the memory limit is requested, so the pod is not Guaranteed",
        "indexed-job",
        "RES002",
        f"{TRAINER}.resources.requests.memory",
    ),
    (
        "a hostfile that only Open MPI 4 finds",
        "mpijob",
        "MPI004",
        f"{MPI}.Launcher.template.spec.containers[0].command[0]",
    ),
    ("no CPU is requested beside eight GPUs", "indexed-job", "RES001", f"{TRAINER}.resources"),
    (
        "an RDMA device, but no right to lock memory",
        "indexed-job",
        "NCL016",
        f"{TRAINER}.resources.limits[rdma/rdma_shared_device_a]",
    ),
    (
        "a dataset claim that nothing declares",
        "indexed-job",
        "STO005",
        f"{POD}.volumes[dataset].persistentVolumeClaim.claimName",
    ),
    ("NCCL_DEBUG=INFO left on", "indexed-job", "NCL007", f"{TRAINER}.env[NCCL_DEBUG]"),
    ("the image is named by a tag", "indexed-job", "SEC004", f"{TRAINER}.image"),
    ("backoffLimit is left at 6, and a crash costs four pods", "indexed-job", "RST002", "spec.backoffLimit"),
    ("backoffLimit is left at 6, and a crash costs four pods", "deepspeed-job", "RST002", "spec.backoffLimit"),
    ("a subdomain, and no Service of that name", "deepspeed-job", "RDV004", f"{POD}.subdomain"),
    (
        "DeepSpeed's configuration is named from wherever the image starts, and mounted in /app",
        "deepspeed-job",
        "BAT006",
        f"{TRAINER}.command[8]",
    ),
    ("ZeRO checkpoints are written to no volume at all", "deepspeed-job", "STO003", f"{POD}.volumes"),
    ("neither CPU nor memory is requested", "deepspeed-job", "RES001", f"{TRAINER}.resources"),
    (
        "nodes may come and go, but the first failed rank ends the job",
        "pytorchjob",
        "RST001",
        f"{WORKER}.containers[0].command[0]",
    ),
    (
        "options of mpirun and their values in one word",
        "mpijob",
        "MPI001",
        f"{MPI}.Launcher.template.spec.containers[0].command[2]",
    ),
    ("checkpoints on no volume", "mpijob", "STO003", f"{MPI}.Worker.template.spec.volumes"),
    ("InfiniBand settings without an RDMA device", "nccl-settings", "NCL004", f"{TRAINER}.env[NCCL_IB_HCA]"),
    ("the index of the RoCE address is pinned", "nccl-settings", "NCL010", f"{TRAINER}.env[NCCL_IB_GID_INDEX]"),
    (
        "the choice of algorithm is taken from NCCL's tuner",
        "nccl-settings",
        "NCL011",
        f"{TRAINER}.env[NCCL_ALGO]",
    ),
    (
        "NCCL_DEBUG_SUBSYS without NCCL_DEBUG=INFO does nothing",
        "nccl-settings",
        "NCL008",
        f"{TRAINER}.env[NCCL_DEBUG_SUBSYS]",
    ),
    ("eight ranks on 64 MiB of shared memory", "pytorchjob", "MEM001", f"{WORKER}.containers[0].volumeMounts"),
    ("an elastic job of 2 to 8 nodes with a batch a GPU", "pytorchjob", "BAT004", f"{WORKER}.containers[0].command[7]"),
    (
        "NCCL_NET_GDR_LEVEL forced to SYS",
        "pytorchjob",
        "NCL012",
        f"{WORKER}.containers[0].env[NCCL_NET_GDR_LEVEL]",
    ),
    (
        "an RDMA device, but no right to lock memory",
        "pytorchjob",
        "NCL016",
        f"{WORKER}.containers[0].resources.limits[rdma/rdma_shared_device_a]",
    ),
    ("no volume for checkpoints, which elastic training restarts from", "pytorchjob", "STO003", f"{WORKER}.volumes"),
    ("eight GPUs on 64 MiB of shared memory", "tfjob", "MEM001", f"{CHIEF}.containers[0].volumeMounts"),
    (
        "a variable of TensorFlow in the chief, and not in the workers",
        "tfjob",
        "ENV012",
        f"{CHIEF}.containers[0].env[TF_FORCE_GPU_ALLOW_GROWTH]",
    ),
    ("neither CPU nor memory is requested", "tfjob", "RES001", f"{CHIEF}.containers[0].resources"),
]

REPEATED = {"NCL007", "RES001", "SEC004", "STO003"}
"""Rules that speak of the same mistake in several articles; the table names it once or twice."""


def lint(file: str, format: str) -> str:
    options = ["--no-cache", f"--format={format}", "--level=info", "--color=never"]
    told = said(main, *options, f"tests/articles/{file}", cwd=HOME)
    assert told.code in (0, 1), told.errors
    return told.out


@pytest.fixture(scope="module")
def found() -> dict[str, set[tuple[str, str]]]:
    """(rule, path) of each finding, by file."""
    documents: dict[str, Any] = {file: json.loads(lint(file, "json")) for file in FILES}
    return {
        file.removesuffix(".yaml"): {(finding["rule"], finding["path"]) for finding in document["findings"]}
        for file, document in documents.items()
    }


@pytest.mark.parametrize(("words", "file", "rule", "path"), MISTAKES, ids=[f"{m[1]}: {m[0]}" for m in MISTAKES])
def test_mistake_is_named(found: dict[str, set[tuple[str, str]]], words: str, file: str, rule: str, path: str) -> None:
    assert (rule, path) in found[file], f"nothing says: {words}"


def test_every_finding_is_a_known_mistake(found: dict[str, set[tuple[str, str]]]) -> None:
    told = {(file, rule) for file, findings in found.items() for rule, _ in findings if rule not in REPEATED}
    assert told <= {(file, rule) for _, file, rule, _ in MISTAKES}


@pytest.mark.parametrize("file", FILES)
def test_whole_output(file: str) -> None:
    hold(ARTICLES / f"{file.removesuffix('.yaml')}.expected.txt", lint(file, "text"))
