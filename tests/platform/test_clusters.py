"""What each cluster's platform gives its teams, held against the facts that its jobs are made from."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.objects.quantity import quantity

HOME = Path(__file__).parents[2]
CLUSTERS = sorted(folder.parent.name for folder in HOME.glob("clusters/*/platform"))
OLD = sorted(HOME.glob(".tools/old/kustomize-*"))
Object = dict[str, Any]


def build(folder: str, program: Path = HOME / ".tools/bin/kustomize") -> bytes:
    return subprocess.run([program, "build", folder], cwd=HOME, check=True, capture_output=True).stdout


def facts(cluster: str) -> Object:
    spec: Object = yaml.safe_load((HOME / f"clusters/{cluster}/facts/cluster.yaml").read_text())["spec"]
    return spec


def fabric(cluster: str) -> Object:
    kustomization = yaml.safe_load((HOME / f"clusters/{cluster}/facts/kustomization.yaml").read_text())
    overlay = next(path for path in kustomization["resources"] if "overlays" in path)
    spec: Object = yaml.safe_load((HOME / f"overlays/{overlay.rpartition('/')[2]}/fabric.yaml").read_text())["spec"]
    return spec


@pytest.fixture(params=CLUSTERS, scope="module")
def cluster(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def objects(cluster: str) -> list[Object]:
    return list(yaml.safe_load_all(build(f"clusters/{cluster}/platform")))


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


@pytest.mark.slow_build
@pytest.mark.parametrize("old", OLD, ids=lambda program: program.name)
def test_versions_of_kustomize_agree(cluster: str, old: Path) -> None:
    assert build(f"clusters/{cluster}/platform", old) == build(f"clusters/{cluster}/platform")


def test_pods_of_the_fabric_pass_the_namespace(cluster: str, objects: list[Object]) -> None:
    [namespace] = [each for each in of_kind(objects, "Namespace") if each["metadata"]["name"] == "research"]
    level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    capabilities = fabric(cluster)["securityContext"]["capabilities"]
    assert level == ("privileged" if capabilities.get("add") else "restricted")


@pytest.mark.claim("team-has-a-closed-door")
def test_a_team_has_its_limits_its_roles_and_a_closed_door(objects: list[Object]) -> None:
    names: dict[str, list[str]] = {}
    for each in objects:
        if each["metadata"].get("namespace") == "research":
            names.setdefault(each["kind"], []).append(each["metadata"]["name"])
    assert "deny" in names["NetworkPolicy"]
    kinds = ("ResourceQuota", "LimitRange", "Role", "RoleBinding")
    assert {kind: names[kind] for kind in kinds} == {
        "ResourceQuota": ["team"],
        "LimitRange": ["node"],
        "Role": ["gitops", "researcher"],
        "RoleBinding": ["gitops", "researcher"],
    }


def test_a_container_may_be_as_large_as_a_node(cluster: str, objects: list[Object]) -> None:
    [limits] = [each for each in of_kind(objects, "LimitRange") if each["metadata"]["namespace"] == "research"]
    node = facts(cluster)["node"]
    assert limits["spec"]["limits"][0]["max"] == {"cpu": str(node["cpu"]), "memory": node["memory"]}


def test_the_team_may_hold_the_whole_cluster_and_what_starts_jobs(cluster: str, objects: list[Object]) -> None:
    [quota] = of_kind(objects, "ResourceQuota")
    hard, node, nodes = quota["spec"]["hard"], facts(cluster)["node"], facts(cluster)["nodes"]
    memory, each = quantity(hard["requests.memory"]), quantity(node["memory"])
    assert memory is not None
    assert each is not None
    assert (int(hard["requests.cpu"]), memory, int(hard["requests.nvidia.com/gpu"])) == (
        nodes * node["cpu"] + 16,
        nodes * each + 64 * 2**30,
        nodes * node["gpus"],
    )


def test_a_queue_is_as_large_as_the_quota_of_its_team(objects: list[Object]) -> None:
    [quota] = of_kind(objects, "ResourceQuota")
    for queue in of_kind(objects, "ClusterQueue"):
        [flavor] = queue["spec"]["resourceGroups"][0]["flavors"]
        sizes = {f"requests.{each['name']}": each["nominalQuota"] for each in flavor["resources"]}
        assert sizes == quota["spec"]["hard"]
        assert "namespace" not in queue["metadata"]
        [local] = of_kind(objects, "LocalQueue")
        assert (local["metadata"]["namespace"], local["spec"]["clusterQueue"]) == (
            "research",
            queue["metadata"]["name"],
        )
        assert queue["spec"]["namespaceSelector"]["matchLabels"] == {"trainyard.dev/team": "research"}
        assert flavor["name"] in {each["metadata"]["name"] for each in of_kind(objects, "ResourceFlavor")}


@pytest.mark.claim("claims-of-many-nodes")
def test_claims_of_datasets_are_there_and_can_be_read_by_many_nodes(cluster: str, objects: list[Object]) -> None:
    claims = {each["metadata"]["name"]: each for each in of_kind(objects, "PersistentVolumeClaim")}
    storage = facts(cluster)["storage"]
    for name in storage["datasetClaims"]:
        spec, annotations = claims[name]["spec"], claims[name]["metadata"]["annotations"]
        assert spec["accessModes"] in (["ReadWriteMany"], ["ReadOnlyMany"])
        assert spec["storageClassName"] == storage["datasetClass"]
        assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
        assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


def test_claims_find_their_class_or_their_volume(objects: list[Object]) -> None:
    classes = {each["metadata"]["name"] for each in of_kind(objects, "StorageClass")}
    volumes = {each["metadata"]["name"]: each for each in of_kind(objects, "PersistentVolume")}
    for claim in of_kind(objects, "PersistentVolumeClaim"):
        spec, metadata = claim["spec"], claim["metadata"]
        if "volumeName" not in spec:
            assert spec["storageClassName"] in classes
            continue
        volume = volumes[spec["volumeName"]]["spec"]
        assert volume["claimRef"] == {"namespace": metadata["namespace"], "name": metadata["name"]}
        assert volume["storageClassName"] == spec["storageClassName"]
        assert volume["accessModes"] == spec["accessModes"]


@pytest.mark.claim("claims-outlive-mistakes")
def test_classes_of_checkpoints_keep_the_files_of_a_lost_claim(cluster: str, objects: list[Object]) -> None:
    classes = {each["metadata"]["name"]: each for each in of_kind(objects, "StorageClass")}
    assert classes[facts(cluster)["storage"]["checkpointClass"]]["reclaimPolicy"] == "Retain"


def test_networks_of_a_second_interface_are_there_with_their_devices(cluster: str, objects: list[Object]) -> None:
    spec = fabric(cluster)
    asked = [name for name in spec["podAnnotations"].get("k8s.v1.cni.cncf.io/networks", "").split(",") if name]
    resources = {
        each["metadata"]["name"]: each["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"]
        for each in of_kind(objects, "NetworkAttachmentDefinition")
    }
    assert sorted(asked) == sorted(resources)
    if asked:
        assert {resources[name]: asked.count(name) for name in asked} == spec["resources"]["limits"]
