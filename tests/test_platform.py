"""clusters/<name>/platform: what a team's namespace allows is what the cluster's facts and fabric say."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from trainyard.discover import Target, TargetKind
from trainyard.objects import Object
from trainyard.quantity import quantity
from trainyard.render import render
from trainyard.rendered import Prepared
from trainyard.sources import Sources

HOME = Path(__file__).resolve().parents[1]
CLUSTERS = sorted(path.name for path in (HOME / "clusters").iterdir())


def objects_in(folder: str) -> tuple[tuple[Object, ...], tuple[Object, ...]]:
    prepared = Prepared(Sources(HOME), Target(folder, TargetKind.KUSTOMIZATION))
    (rendering,) = render(HOME, [folder])
    unit, _ = prepared.unit(rendering)
    return unit.objects, unit.facts


def facts_of(cluster: str) -> dict[str, Any]:
    """The specs of a cluster's facts by kind."""
    return {fact.kind: fact.data["spec"] for fact in objects_in(f"clusters/{cluster}/facts")[1]}


def of_kind(cluster: str, kind: str) -> list[dict[str, Any]]:
    return [item.data for item in objects_in(f"clusters/{cluster}/platform")[0] if item.kind == kind]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_quota_is_the_whole_cluster(cluster: str) -> None:
    facts = facts_of(cluster)
    node, nodes = facts["Cluster"]["node"], facts["Cluster"]["nodes"]
    devices = facts["Fabric"]["resources"].get("limits") or {}
    each = {"cpu": node["cpu"], "memory": node["memory"], "nvidia.com/gpu": node["gpus"], **devices}

    for quota in of_kind(cluster, "ResourceQuota"):
        assert amounts(quota["spec"]["hard"]) == {
            f"requests.{name}": nodes * amount for name, amount in amounts(each).items()
        }


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_container_is_larger_than_a_node(cluster: str) -> None:
    node = facts_of(cluster)["Cluster"]["node"]

    for limits in of_kind(cluster, "LimitRange"):
        (container,) = limits["spec"]["limits"]
        assert amounts(container["max"]) == amounts({"cpu": node["cpu"], "memory": node["memory"]})


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_pod_security_is_as_strict_as_the_fabric_lets_it(cluster: str) -> None:
    added = facts_of(cluster)["Fabric"]["securityContext"].get("capabilities", {}).get("add", [])
    level = "privileged" if added else "restricted"

    namespaces = of_kind(cluster, "Namespace")

    assert namespaces
    for namespace in namespaces:
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_namespace_has_its_limits_and_its_roles(cluster: str) -> None:
    for namespace in of_kind(cluster, "Namespace"):
        name = namespace["metadata"]["name"]
        found = {
            kind: [item["metadata"]["name"] for item in of_kind(cluster, kind) if item["metadata"]["namespace"] == name]
            for kind in ("ResourceQuota", "LimitRange", "Role", "RoleBinding")
        }
        assert found == {
            "ResourceQuota": ["cluster"],
            "LimitRange": ["node"],
            "Role": ["gitops", "researcher"],
            "RoleBinding": ["gitops", "researcher"],
        }


def amounts(written: dict[str, Any]) -> dict[str, Fraction | None]:
    return {name: quantity(amount) for name, amount in written.items()}
