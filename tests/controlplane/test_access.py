"""Who may do what: access.yaml against the real authorizer, and what Pod Security and quotas let through."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.harness import HOME, Ground, ground_for, unit_of, workload_of
from trainyard.controlplane import Refused
from trainyard.controlplane.client import User
from trainyard.objects.unit import Unit
from trainyard.verify.dry_run import gitops
from trainyard.verify.pods import pod_of
from trainyard.workload.model import Workload

pytestmark = pytest.mark.controlplane

TABLE = yaml.safe_load((Path(__file__).parent / "access.yaml").read_text())
JOBS = {"lab-west": "jobs/research/gpt2-124m", "gpu-east": "jobs/research/llama-8b-sft"}
TEAM = "research"


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster with its platform, and a job that lands there."""

    ground: Ground
    unit: Unit
    workload: Workload

    def user(self, who: str) -> User:
        """Somebody of access.yaml."""
        return {
            "gitops": gitops(TEAM),
            "team": User("ada@example.com", (TEAM, "system:authenticated")),
            "job": User.service_account(TEAM, self.workload.object.name),
            "default": User.service_account(TEAM, "default"),
            "stranger": User("eve@example.com", ("vision", "system:authenticated")),
        }[who]


@pytest.fixture(scope="module", params=sorted(JOBS))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    unit = unit_of(JOBS[request.param])
    with ground_for(unit, "kube-controller-manager", nodes=0) as ground:
        for item in unit.objects:
            if item.kind != "Job":
                ground.client.apply(item.data)
        yield Place(ground, unit, workload_of(unit))


def test_every_cluster_gives_the_same_rights() -> None:
    """Those that no job lands on are not started: what they give is what those give that are."""
    clusters = sorted(path.name for path in (HOME / "clusters").iterdir())
    rights = {name: rights_of(name) for name in clusters}

    assert rights.keys() > JOBS.keys()
    assert {name for name in clusters if rights[name] != rights[next(iter(JOBS))]} == set()


def rights_of(cluster: str) -> list[tuple[str, dict[str, Any]]]:
    """Roles and their bindings in the team's namespace."""
    platform = unit_of(f"clusters/{cluster}/platform").objects
    kinds = ("Role", "RoleBinding")
    return sorted(
        (f"{item.kind} {item.name}", {key: item.data.get(key) for key in ("rules", "roleRef", "subjects")})
        for item in platform
        if item.kind in kinds and item.namespace == TEAM
    )


@pytest.mark.claim("rights-are-those-of-the-table")
@pytest.mark.parametrize("who", TABLE["allowed"])
def test_everybody_may_do_what_the_table_says_and_no_more(place: Place, who: str) -> None:
    client, user = place.ground.client, place.user(who)

    found = {
        resource: allowed
        for resource in TABLE["resources"]
        if (allowed := [verb for verb in TABLE["verbs"] if client.allowed(user, verb, resource, TEAM)])
    }

    assert found == TABLE["allowed"][who]


@pytest.mark.parametrize("who", TABLE["allowed"])
@pytest.mark.parametrize("namespace", ["default", "kube-system", "argocd", ""])
def test_nobody_may_do_anything_elsewhere(place: Place, who: str, namespace: str) -> None:
    client, user = place.ground.client, place.user(who)

    found = [
        (verb, resource)
        for resource in [*TABLE["resources"], "nodes", "namespaces", "clusterroles.rbac.authorization.k8s.io"]
        for verb in ("get", "create", "delete")
        if client.allowed(user, verb, resource, namespace)
    ]

    assert found == []


def test_what_is_allowed_is_what_a_job_folder_needs(place: Place) -> None:
    """Every kind that the job renders to may be created. That no other may is tests/gitops/test_rights.py."""
    kinds = {item.kind.lower() for item in place.unit.objects}

    allowed = {resource.partition(".")[0] for resource in TABLE["allowed"]["gitops"]}

    assert {kind.replace("policy", "policie") + "s" for kind in kinds} <= allowed


@pytest.mark.claim("no-tokens")
def test_the_pods_of_a_job_get_no_token(place: Place) -> None:
    pod = place.ground.client.create(a_pod(place), dry_run=True).body

    mounts = [mount["mountPath"] for each in pod["spec"]["containers"] for mount in each["volumeMounts"]]
    assert not any("serviceaccount" in path for path in mounts)


FREE_WITH_THE_FABRIC = ("allowPrivilegeEscalation != false", "IPC_LOCK")
"""What pods may do where the fabric has the namespace without a Pod Security level: the rest is refused by SEC005."""


def a_pod(place: Place) -> dict[str, Any]:
    (pod_set,) = place.workload.pod_sets
    return copy.deepcopy(pod_of(place.workload, pod_set, 0))


@pytest.mark.parametrize(
    ("fields", "container", "said"),
    [
        ({"hostNetwork": True}, {}, "hostNetwork=true"),
        ({"hostPID": True}, {}, "hostPID=true"),
        ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, {"volumeMounts": []}, "hostPath"),
        ({}, {"securityContext": {"privileged": True}}, "privileged"),
        ({}, {"securityContext": {}}, "allowPrivilegeEscalation != false"),
        (
            {},
            {
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
                }
            },
            "IPC_LOCK",
        ),
        ({"securityContext": {"runAsUser": 0}}, {}, "runAsUser=0"),
    ],
)
def test_pod_security_holds_where_the_fabric_needs_no_more(
    place: Place, fields: dict[str, Any], container: dict[str, Any], said: str
) -> None:
    pod = a_pod(place)
    pod["spec"] |= fields
    pod["spec"]["containers"][0] |= container
    labels = place.ground.client.get({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})["metadata"][
        "labels"
    ]

    if labels["pod-security.kubernetes.io/enforce"] != "privileged":
        with pytest.raises(Refused, match="violates PodSecurity") as refused:
            place.ground.client.create(pod, dry_run=True)
        assert said in str(refused.value)
    elif said in FREE_WITH_THE_FABRIC:
        place.ground.client.create(pod, dry_run=True)
    else:
        with pytest.raises(Refused, match="SEC005"):
            place.ground.client.create(pod, dry_run=True)


def test_a_container_larger_than_a_node_is_refused(place: Place) -> None:
    pod = a_pod(place)
    more = {"cpu": "1k", "memory": "1Gi"}
    pod["spec"]["containers"][0]["resources"] = {"limits": more, "requests": more}

    with pytest.raises(Refused, match="maximum cpu usage per Container"):
        place.ground.client.create(pod, dry_run=True)


def test_a_job_over_quota_gets_the_pods_that_fit_and_no_more(place: Place) -> None:
    """The real Job controller makes pods until the quota refuses one."""
    client = place.ground.client
    cluster = place.workload.cluster
    assert cluster is not None
    nodes = cluster.data["spec"]["nodes"]
    job = copy.deepcopy(place.workload.object.data)
    job["metadata"]["name"] = "over-quota"
    job["spec"] |= {"completions": nodes + 1, "parallelism": nodes + 1}
    client.create(job)

    def refused() -> list[str]:
        events = client.list("v1", "Event", TEAM)
        return [each["message"] for each in events if "exceeded quota" in each.get("message", "")]

    said = client.until("refused pod", refused)
    pods = client.list("v1", "Pod", TEAM, "batch.kubernetes.io/job-name=over-quota")
    client.delete(job)

    assert len(pods) == nodes
    assert f"requests.nvidia.com/gpu={nodes * 8}" in said[0]
