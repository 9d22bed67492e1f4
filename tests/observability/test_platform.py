"""clusters/<name>/platform/nodes and monitoring: rendered, valid, in namespaces that let their pods in."""

import pytest

from tests.observability.catalogue import HOME
from tests.observability.folders import CLUSTERS, Json, of_kind, pods, rendered
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import check

FOLDERS = [f"clusters/{cluster}/platform/{part}" for cluster in CLUSTERS for part in ("nodes", "monitoring")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_object_is_valid(folder: str) -> None:
    objects = tuple(Object.of(item, index) for index, item in enumerate(rendered(folder)))

    assert [(problem.object.title, problem.message) for problem in check([Unit(folder, False, objects)])] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_pods_that_read_the_host_are_where_that_is_allowed(folder: str) -> None:
    levels = {
        item["metadata"]["name"]: item["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for item in of_kind(folder, "Namespace")
    }

    for item in rendered(folder):
        for pod in pods(item):
            if reads_the_host(pod):
                assert levels[item["metadata"]["namespace"]] == "privileged"


@pytest.mark.parametrize("folder", FOLDERS)
def test_images_are_fixed_and_pods_bounded(folder: str) -> None:
    for item in rendered(folder):
        for pod in pods(item):
            for container in pod["spec"]["containers"]:
                assert "@sha256:" in container["image"]
                assert container["resources"]["limits"]["memory"]
                assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_tensorboard_reads_the_claim_of_the_run_that_it_is_named_after() -> None:
    folder = "clusters/lab-west/platform/monitoring"
    (board,) = of_kind(folder, "Deployment")
    (policy,) = [item for item in of_kind(folder, "NetworkPolicy") if item["metadata"]["namespace"] == "research"]
    (claim,) = [
        volume["persistentVolumeClaim"]
        for volume in board["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    run = claim["claimName"].removesuffix("-checkpoints")

    assert claim["readOnly"]
    assert board["metadata"]["name"] == f"tensorboard-{run}"
    assert (HOME / f"jobs/{board['metadata']['namespace']}/{run}/job.yaml").is_file()
    assert (
        policy["spec"]["podSelector"]
        == board["spec"]["selector"]
        == {"matchLabels": board["spec"]["template"]["metadata"]["labels"]}
    )


def reads_the_host(pod: Json) -> bool:
    return bool(pod["spec"].get("hostNetwork") or any("hostPath" in volume for volume in pod["spec"]["volumes"]))
