"""The benchmark chain: Argo's controller orders its steps, which run with the rights they have."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.chain import ARGO, CLUSTER, NAMESPACE, NODES, Chain, chain_in, submit
from tests.controlplane.harness import HOME
from tests.controlplane.steps import drive
from trainyard.benchmark.create import make
from trainyard.controlplane import Refused

# Of the chain a pull request changes little, and Argo's controller takes six minutes to build.
pytestmark = [pytest.mark.controlplane, pytest.mark.long]
JOBS = ("collectives", "gpt-3", "llama-70b")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with chain_in(tmp_path_factory.mktemp("chain")) as made:
        yield made


@pytest.mark.claim("argo-finds-nothing")
def test_argo_finds_nothing_wrong_with_the_chain(tmp_path: Path) -> None:
    done = subprocess.run(
        [HOME / ".tools/bin/kustomize", "build", f"clusters/{CLUSTER}/platform/benchmark"],
        cwd=HOME,
        capture_output=True,
        check=True,
    )
    (tmp_path / "chain.yaml").write_bytes(done.stdout)
    said = subprocess.run([ARGO / "lint", tmp_path / "chain.yaml"], capture_output=True, text=True)
    assert (said.returncode, said.stdout.strip().splitlines()[-1:]) == (0, ["no linting errors found!"])


def test_the_chain_runs_in_order_with_the_rights_it_has(chain: Chain) -> None:
    submit(chain, "bench-1")
    assert drive(chain, "bench-1") == "Succeeded"
    each = ["create", "run", "collect"]
    assert chain.ran == ["nodes", *each, *each, *each, "assemble", "compare"]

    run = json.loads((chain.results / "runs/bench-1.json").read_text())
    assert run["measures"] == {
        "collectives/all_reduce_bus_gb_per_second": 310.5,
        "gpt-3/tokens_per_second": 7e5,
        "llama-70b/tokens_per_second": 7e5,
    }
    assert sorted(run["nodes"]) == sorted(f"{CLUSTER}-{number}" for number in range(NODES))
    assert all(len(node["ranks"]) == 8 for node in run["nodes"].values())
    assert run["fingerprint"]["driver"]["nvidia"] == "580.95.05"
    assert run["fingerprint"]["topology"] == {f"trainyard.dev/rack r{rack}": "8 nodes" for rack in (0, 1)}
    for job in ("gpt-3", "llama-70b"):
        parts = run["workloads"][job]["kubernetes"]
        assert list(parts) == ["pods", "scheduling", "start", "rendezvous", "first step"]
        assert parts["first step"] == pytest.approx(3.5, abs=0.01)


def test_a_second_run_has_the_same_fingerprint(chain: Chain) -> None:
    def digests(run: str) -> list[str]:
        jobs = chain.checkout / f"clusters/{CLUSTER}/benchmark"
        return [make(jobs / job, f"{run}-{job}", HOME / ".tools/bin/kustomize").digest for job in JOBS]

    assert digests("a") == digests("b2")


@pytest.mark.claim("chain-belongs-to-its-workflow")
def test_what_the_chain_made_is_the_workflows(chain: Chain) -> None:
    workflow = chain.workflow("bench-1")
    for kind, version in (
        ("ConfigMap", "v1"),
        ("PersistentVolumeClaim", "v1"),
        ("Job", "batch/v1"),
        ("MPIJob", "kubeflow.org/v2beta1"),
    ):
        made = [
            item
            for item in chain.client.list(version, kind, NAMESPACE)
            if item["metadata"]["name"].startswith("bench-1-")
        ]
        assert made
        for item in made:
            owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
            assert workflow["metadata"]["uid"] in owners or item["metadata"].get("ownerReferences"), item["metadata"][
                "name"
            ]


@pytest.mark.claim("chain-belongs-to-its-workflow")
def test_the_chain_may_not_do_what_it_need_not(chain: Chain) -> None:
    for method, path in (
        ("GET", "/api/v1/namespaces/benchmark/secrets"),
        ("GET", "/api/v1/namespaces/research/pods"),
        ("DELETE", "/apis/batch/v1/namespaces/benchmark/jobs/bench-1-gpt-3"),
        ("GET", "/apis/apps/v1/namespaces/node-tuning/daemonsets"),
    ):
        with pytest.raises(Refused) as refused:
            chain.account.request(method, path)
        assert refused.value.code == 403, path


def test_a_node_without_its_gpus_ends_the_chain(chain: Chain) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{CLUSTER}-3"}}
    broken = {"allocatable": {"nvidia.com/gpu": "7"}}
    chain.client.patch(node, {"status": broken}, below="status")
    step = [
        sys.executable,
        "-m",
        "trainyard.benchmark",
        "nodes",
        f"--facts={chain.checkout}/clusters/{CLUSTER}/facts/cluster.yaml",
    ]
    done = subprocess.run(
        [*step, f"--out={chain.results}/x", "--context=benchmark"],
        env=chain.environment,
        capture_output=True,
        text=True,
    )
    chain.client.patch(node, {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}, below="status")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, f"{CLUSTER}-3: 7 of 8 GPUs can be had")
