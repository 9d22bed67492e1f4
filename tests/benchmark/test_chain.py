"""The chain as it is rendered: its order, its jobs, the queries it asks, and the chain on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.observability.catalogue import known_metrics
from tests.observability.programs import parsed_queries
from trainyard.benchmark.create import make
from trainyard.benchmark.nodes import faults, fingerprint
from trainyard.benchmark.prometheus import PHASES, STEPS, USAGE
from trainyard.benchmark.rehearse import steps

HOME = Path(__file__).resolve().parents[2]
CLUSTER = "gpu-east"
JOBS = ("collectives", "gpt-3", "llama-70b")
FOLDER = f"clusters/{CLUSTER}/platform/benchmark"


def chain() -> dict[str, object]:
    done = subprocess.run([HOME / ".tools/bin/kustomize", "build", FOLDER], cwd=HOME, capture_output=True, check=True)
    (found,) = [item for item in yaml.safe_load_all(done.stdout) if item["kind"] == "WorkflowTemplate"]
    spec: dict[str, object] = found["spec"]
    return spec


def test_nodes_come_first_and_the_comparison_last() -> None:
    each = [(step, job) for job in JOBS for step in ("create", "run", "collect")]
    assert list(steps(chain())) == [("nodes", ""), *each, ("assemble", ""), ("compare", "")]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_made_of_its_folder_under_another_name(job: str) -> None:
    folder = HOME / "clusters" / CLUSTER / "benchmark" / job
    made = make(folder, f"bench-x-{job}", HOME / ".tools/bin/kustomize")
    assert made.job["metadata"]["name"] == f"bench-x-{job}"
    assert {item["metadata"]["namespace"] for item in (made.job, *made.others)} == {"benchmark"}
    assert f'"{job}"' not in json.dumps([made.job, *made.others])
    assert made.digest == make(folder, f"other-{job}", HOME / ".tools/bin/kustomize").digest
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted(JOBS)


@pytest.mark.slow_build
def test_queries_are_promql_and_name_what_exists() -> None:
    names = {"namespace": "benchmark", "job": "run", "window": "300s"}
    expressions = [text.format(**names) for text in (*USAGE.values(), *PHASES.values(), STEPS)]
    known = known_metrics()
    for expression, said in zip(expressions, parsed_queries(expressions), strict=True):
        assert not said.get("error"), (expression, said)
        for selector in said["selectors"]:
            assert selector["metric"] in known, (expression, selector)
            assert set(selector["labels"]) <= known[selector["metric"]].labels, (expression, selector)


def test_a_node_that_lost_a_gpu_is_named_and_labels_make_the_fingerprint() -> None:
    def node(name: str, gpus: str, rack: str, ready: str = "True") -> dict[str, object]:
        labels = {"nvidia.com/gpu.product": "H100", "trainyard.dev/rack": rack}
        conditions = [{"type": "Ready", "status": ready}, {"type": "KernelDeadlock", "status": "False"}]
        status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": conditions}
        return {"metadata": {"name": name, "labels": labels}, "status": status}

    nodes = [node("a", "8", "r1"), node("b", "7", "r1"), node("c", "8", "r2", ready="Unknown")]
    assert faults(nodes, 8) == ["b: 7 of 8 GPUs can be had", "c: Ready is Unknown: "]
    found = fingerprint(nodes)
    assert found["hardware"]["gpu"] == "H100"
    assert found["topology"] == {"trainyard.dev/rack r1": "2 nodes", "trainyard.dev/rack r2": "1 nodes"}


@pytest.mark.rehearsal
@pytest.mark.root
@pytest.mark.report
@pytest.mark.long
def test_the_chain_on_this_machine_names_the_node_that_is_slowed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainyard.benchmark", "rehearse", CLUSTER, "--name=slowed", "--slow=1=0.3"]
    done = subprocess.run(
        [*command, f"--out={tmp_path}"], env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(HOME / "tools")},
        cwd=HOME, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    each = [f"{step} {job}" for job in JOBS for step in ("create", "run", "collect")]
    ran = [line.rpartition(":")[0] for line in done.stdout.splitlines() if line.endswith(" s")]
    assert ran == ["nodes", *each, "assemble", "compare"]
    said = subprocess.run(
        [HOME / "tools/bench-report", "postmortem", tmp_path / "runs/slowed.json", "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first = json.loads(said.stdout)[0]
    assert (first["node"], first["rank"], first["phase"]) == ("node-1", 1, "compute")
