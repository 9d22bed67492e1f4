"""The network of a rehearsal is that of the job's cluster: read from real job folders and manifests."""

from pathlib import Path

import pytest

from trainyard.rehearse.load import load
from trainyard.rehearse.members import members
from trainyard.rehearse.netplan import NETWORKS, network_plan
from trainyard.rehearse.network import NetworkPlan
from trainyard.rehearse.scale import Scale

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: gpt, namespace: research}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata:
      annotations:
        NETWORKS: 'ANNOTATION'
    spec:
      subdomain: gpt
      enableServiceLinks: false
      containers:
      - name: trainer
        image: trainer
        command: [torchrun, train.py]
        ports: [{name: metrics, containerPort: 9090}]
"""


def planned(job: str, root: Path, work: Path) -> NetworkPlan:
    workload = load(root, job, root, Scale(), work).workload
    return network_plan(workload, members(workload))


def test_a_job_folder_brings_its_policies_its_service_and_the_speed_of_its_cluster(tmp_path: Path) -> None:
    plan = planned("jobs/research/gpt2-124m", ROOT, tmp_path)
    assert [pod.hostname for pod in plan.pods] == ["gpt2-124m-0", "gpt2-124m-1"]
    assert {pod.subdomain for pod in plan.pods} == {"gpt2-124m"}
    assert "gpt2-124m" in {service["metadata"]["name"] for service in plan.services}
    assert "gpt2-124m-deny" in {policy["metadata"]["name"] for policy in plan.policies}
    assert (plan.interface, plan.bits_per_second) == ("eth0", 200 * 10**9)


@pytest.mark.parametrize(
    ("annotation", "networks"),
    [
        ("rail-0, fabric/rail-1@rdma1", ("rail-0", "fabric/rail-1@rdma1")),
        ('[{"name": "rail-0"}, {"name": "rail-1", "interface": "rdma1"}]', ("rail-0", "rail-1@rdma1")),
        ("[{", ()),
    ],
)
def test_pods_of_plain_manifests_have_their_ports_and_further_networks(
    annotation: str, networks: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST.replace("NETWORKS", NETWORKS).replace("ANNOTATION", annotation))
    plan = planned("job.yaml", tmp_path, tmp_path / "work")
    for pod in plan.pods:
        assert pod.ports == {("TCP", "metrics"): 9090}
        assert pod.extra_networks == networks
        assert not pod.service_links
