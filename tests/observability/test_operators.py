"""Operators: what a cluster's nodes offer is what its jobs ask for, and no upgrade touches a run."""

import json

import pytest

from tests.observability.catalogue import HOME, read
from tests.observability.folders import CLUSTERS, Json, of_kind, one_of_kind

OFFERED_BY_THE_CLOUD = {"vpc.amazonaws.com/efa"}


def nodes(cluster: str) -> str:
    return f"clusters/{cluster}/platform/nodes"


def fabric(cluster: str) -> Json:
    """The fact sheet that the cluster's facts name."""
    resources = read(HOME / f"clusters/{cluster}/facts/kustomization.yaml")["resources"]
    (folder,) = [resource for resource in resources if "overlays/" in resource]
    sheet: Json = read(HOME / "overlays" / folder.rpartition("/")[2] / "fabric.yaml")
    return sheet


def pools(policy: Json, plugin: str, key: str) -> list[Json]:
    """The pools in the configuration of a device plugin, which is JSON in a string."""
    found: list[Json] = json.loads(policy["spec"].get(plugin, {}).get("config", "{}")).get(key, [])
    return found


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_devices_that_jobs_ask_for_are_offered(cluster: str) -> None:
    asked = fabric(cluster)["spec"]["resources"].get("limits") or {}
    policies = of_kind(nodes(cluster), "NicClusterPolicy")

    offered = {
        f"rdma/{pool['resourceName']}"
        for policy in policies
        for pool in pools(policy, "rdmaSharedDevicePlugin", "configList")
    } | {
        f"{pool['resourcePrefix']}/{pool['resourceName']}"
        for policy in policies
        for pool in pools(policy, "sriovDevicePlugin", "resourceList")
    }

    assert set(asked) - OFFERED_BY_THE_CLOUD == offered


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_counters_are_in_the_map_that_the_exporter_mounts(cluster: str) -> None:
    policy = one_of_kind(nodes(cluster), "ClusterPolicy")

    (counters,) = [item for item in of_kind(nodes(cluster), "ConfigMap") if "dcgm-metrics.csv" in item["data"]]

    assert policy["spec"]["dcgmExporter"]["config"]["name"] == counters["metadata"]["name"]
    assert counters["metadata"]["namespace"] == "gpu-operator"


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_driver_waits_until_no_run_is_left_on_the_node(cluster: str) -> None:
    policies = [one_of_kind(nodes(cluster), "ClusterPolicy")["spec"]["driver"]["upgradePolicy"]]
    policies += [
        policy["spec"]["ofedDriver"]["upgradePolicy"] for policy in of_kind(nodes(cluster), "NicClusterPolicy")
    ]

    for upgrade in policies:
        assert upgrade["waitForCompletion"] == {"podSelector": "trainyard.dev/job", "timeoutSeconds": 0}
        assert upgrade["maxParallelUpgrades"] == 1
        assert not upgrade["drain"]["enable"] or upgrade["drain"]["podSelector"] == "!trainyard.dev/job"


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_memory_may_be_pinned_where_the_fabric_pins_it(cluster: str) -> None:
    added = fabric(cluster)["spec"]["securityContext"].get("capabilities", {}).get("add", [])
    (settings,) = [
        item
        for item in of_kind(nodes(cluster), "ConfigMap")
        if item["metadata"]["name"].startswith("node-tuning-settings")
    ]

    assert ("IPC_LOCK" in added) == (settings["data"].get("MEMLOCK") == "infinity")
