"""The queue that the repository ships admits a job: its own objects under the real Kueue, on nodes as the facts say.

Nodes have the labels of the cluster's facts and their host name, and no other: a level of the topology whose label
nothing sets would leave Kueue without a node, and each job waiting for ever.
"""

import dataclasses
from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.harness import HOME, Ground, ground, nodes_of, quotas_known, unit_of
from trainyard.controlplane import controllers
from trainyard.objects.unit import Unit

pytestmark = pytest.mark.controlplane

JOB = "jobs/research/llama-8b-code"
TEAM = "research"
OF_THE_CLUSTER = ("Topology", "ResourceFlavor", "ClusterQueue", "WorkloadPriorityClass")
OF_THE_TEAM = ("ServiceAccount", "ResourceQuota", "LimitRange", "LocalQueue")


@pytest.fixture
def kueue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """Kueue with the settings of base/kueue, for the kind of the job."""
    shipped = yaml.safe_load((HOME / "base/kueue/config-map.yaml").read_text())["data"]
    config = yaml.safe_load(shipped["controller_manager_config.yaml"])
    known = controllers.CONTROLLERS["kueue"]
    ours = controllers.settings(
        "config.kueue.x-k8s.io/v1beta2",
        certificates_by_setting=True,
        featureGates={"VisibilityOnDemand": False},
        integrations={"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        waitForPodsReady=config["waitForPodsReady"],
        resources=config["resources"],
    )
    monkeypatch.setitem(controllers.CONTROLLERS, "kueue", dataclasses.replace(known, settings=ours))
    with ground() as made:
        made.ensure("jobset", "kueue")
        yield made


def prepared(kueue: Ground, job: Unit) -> None:
    """What the cluster's platform holds of the queue and the team, and the nodes of its facts."""
    platform = unit_of("clusters/gpu-east/platform")
    named = [item for item in platform.objects if item.kind == "Namespace" and item.name == TEAM]
    named += [item for item in platform.objects if item.kind in OF_THE_CLUSTER]
    named += [item for item in platform.objects if item.kind in OF_THE_TEAM and item.namespace == TEAM]
    for item in named:
        kueue.client.apply(item.data)
    cluster, fabric = job.fact("Cluster"), job.fact("Fabric")
    assert cluster is not None
    assert fabric is not None
    for node in nodes_of(cluster, fabric):
        assert not any("rack" in label for label in node["metadata"]["labels"])
        kueue.add_node(node)
    quotas_known(kueue.client, TEAM)


@pytest.mark.long
@pytest.mark.claim("kueue-admits")
def test_the_shipped_queue_admits_a_job_of_this_repository(kueue: Ground) -> None:
    job = unit_of(JOB)
    prepared(kueue, job)
    (run,) = [item for item in job.objects if item.kind == "JobSet"]

    kueue.client.create(run.data)

    def admitted() -> bool:
        found = kueue.client.list("kueue.x-k8s.io/v1beta2", "Workload", TEAM)
        conditions = [each for item in found for each in item.get("status", {}).get("conditions", [])]
        return any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions)

    kueue.client.until("the job is admitted", admitted)
