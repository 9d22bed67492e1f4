"""A cluster refuses every attack with lint left out, and no honest neighbour: a real API server is asked as Flux and
Argo CD ask it, with the rights of the team's account."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.attacks import CLUSTER, TEAMS, Attack, attacks, repository
from tests.controlplane.harness import apply_platform, unit_of
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.objects import Object
from trainyard.policy import allowed
from trainyard.render import render
from trainyard.unit import Unit
from trainyard.verify import gitops
from trainyard.verify.pods import CONTROLLER, pod_of
from trainyard.workload import workloads

pytestmark = pytest.mark.controlplane

ALL = attacks()
Json = dict[str, Any]
Rendered = Mapping[str, list[Json]]
Mark = Callable[[Json, str, str], None]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("attacks")
    repository(root)
    return root


@pytest.fixture(scope="module")
def rendered(root: Path) -> Rendered:
    """What each folder comes to, hostile or not: nobody has linted it."""
    folders = [folder for attack in ALL for folder in (attack.folder, attack.near_folder)]
    return {each.folder: each.objects for each in render(root, folders)}


@pytest.fixture(scope="module")
def admin(root: Path, rendered: Rendered) -> Iterator[Client]:
    """A server with the cluster's platform, and what Kubernetes itself makes in a namespace."""
    platform = unit_of(f"clusters/{CLUSTER}/platform", root)
    with running() as plane, contextlib.closing(plane.client()) as client:
        kinds = {(item["apiVersion"], item["kind"]) for objects in rendered.values() for item in objects}
        load_definitions(client, sorted(kinds - OLD) + [(item.api_version, item.kind) for item in platform.objects])
        apply_platform(client, platform)
        for team in ("research", *TEAMS):
            named = {"namespace": team, "name": "kube-root-ca.crt"}
            client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"ca.crt": "own"}})
            named = {"namespace": team, "name": "default"}
            client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named})
        for policy in allowed.POLICIES:
            client.until(f"{policy.name} in force", partial(is_in_force, client, rendered, policy.name))
        yield client


def is_in_force(client: Client, rendered: Rendered, policy: str) -> bool:
    """Whether an attack is refused by a policy by now."""
    attack = next(attack for attack in ALL if attack.door == (policy,))
    return any(policy in said for said in refusals(client, rendered, attack.folder, flux))


OLD = {("ray.io/v1alpha1", "RayCluster"), ("external-secrets.io/v1beta1", "ExternalSecret")}
"""Versions that share a definition with those that are loaded."""


def flux(item: Json, run: str, team: str) -> None:
    """Mark an object as the kustomize-controller does."""
    labels = item["metadata"].setdefault("labels", {})
    labels |= {"kustomize.toolkit.fluxcd.io/name": run, "kustomize.toolkit.fluxcd.io/namespace": team}


def argocd(item: Json, run: str, team: str) -> None:
    """Mark an object as Argo CD does."""
    group = item["apiVersion"].rpartition("/")[0]
    name = f"{team}.{run}:{group}/{item['kind']}:{team}/{item['metadata']['name']}"
    item["metadata"].setdefault("annotations", {})["argocd.argoproj.io/tracking-id"] = name


def refusals(admin: Client, rendered: Rendered, folder: str, mark: Mark) -> list[str]:
    """What the server says against the objects of a folder, as the team's account applies them."""
    _, team, run = folder.split("/")
    account = admin.acting_as(gitops(team))
    said = []
    for item in copy.deepcopy(rendered[folder]):
        mark(item, run, team)
        try:
            account.apply(item, dry_run=True)
        except Refused as refused:
            said.append(str(refused))
    return said


ENGINES = (flux, argocd)
"""Attacks take turns: each comes by one of them, and its neighbour by the other."""


@pytest.mark.claim("attacks-are-refused-twice")
@pytest.mark.parametrize("index", range(len(ALL)), ids=[attack.name for attack in ALL])
def test_an_attack_is_refused(admin: Client, rendered: Rendered, index: int) -> None:
    attack = ALL[index]

    said = refusals(admin, rendered, attack.folder, ENGINES[index % 2])

    assert any(words in each for each in said for words in attack.door), said


@pytest.mark.parametrize("index", range(len(ALL)), ids=[attack.name for attack in ALL])
def test_a_near_miss_passes(admin: Client, rendered: Rendered, index: int) -> None:
    attack = ALL[index]

    assert rendered[attack.near_folder]
    assert refusals(admin, rendered, attack.near_folder, ENGINES[1 - index % 2]) == []


OF_PODS = [attack for attack in ALL if "SEC005" in attack.refused and attack.attack.get("base") != "trainjob"]


@pytest.mark.claim("every-pod-is-judged")
@pytest.mark.parametrize("attack", OF_PODS, ids=lambda attack: attack.name)
def test_a_pod_is_refused_whoever_makes_it(admin: Client, rendered: Rendered, attack: Attack) -> None:
    """A controller makes the pods of a job that got past everything else."""
    said = [said for pod in pods(rendered[attack.folder]) if (said := refusal(admin.acting_as(CONTROLLER), pod))]

    assert any(
        "sec005.trainyard.dev" in each or "violates PodSecurity" in each or "is invalid" in each for each in said
    )


@pytest.mark.claim("every-pod-is-judged")
@pytest.mark.parametrize(
    "fields",
    [
        {"serviceAccountName": "gitops"},
        {"serviceAccountName": "default"},
        {"automountServiceAccountToken": True},
        {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
    ],
    ids=["the account that syncs", "the account of the namespace", "a token", "a token as a file"],
)
def test_a_pod_has_no_token_whoever_makes_it(admin: Client, rendered: Rendered, fields: Json) -> None:
    honest = next(attack for attack in ALL if attack.name == "all of a review's at once").near_folder
    (pod,) = pods(rendered[honest])
    account = {"namespace": "research", "name": pod["spec"]["serviceAccountName"]}
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    assert refusal(admin.acting_as(CONTROLLER), pod) == ""

    pod["spec"] |= fields | ({"volumes": [*pod["spec"]["volumes"], *fields["volumes"]]} if "volumes" in fields else {})

    assert "sec012.trainyard.dev" in refusal(admin.acting_as(CONTROLLER), pod)


def test_a_platform_may_have_pods_of_its_own(admin: Client) -> None:
    """TensorBoard of a run is such a one: clusters/lab-west/platform."""
    (template,) = (
        item.data["spec"]["template"]
        for item in unit_of("clusters/lab-west/platform").objects
        if item.kind == "Deployment" and item.namespace == "research"
    )
    account = {"namespace": "research", "name": template["spec"]["serviceAccountName"]}
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    metadata = {"namespace": "research", "generateName": "tensorboard-", **template["metadata"]}

    assert refusal(admin, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}) == ""


@pytest.mark.claim("without-a-team-nothing")
def test_without_a_team_nothing_is_let_in(admin: Client) -> None:
    """A namespace that somebody labelled by hand, and nobody gave a Team."""
    labels = {"trainyard.dev/team": "alone"}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alone", "labels": labels}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "alone", "name": "x"}}
    admin.apply(account)
    spec = {"serviceAccountName": "x", "containers": [{"name": "x", "image": "registry.example.com/x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "alone", "name": "x"}, "spec": spec}

    assert "no params found" in refusal(admin, pod)


def pods(objects: list[Json]) -> list[Json]:
    """The first pod of each template of a folder's jobs."""
    unit = Unit("folder", False, tuple(Object.of(item, index) for index, item in enumerate(objects)))
    return [pod_of(workload, pod_set, 0) for workload in workloads(unit) for pod_set in workload.pod_sets]


def refusal(client: Client, pod: Json) -> str:
    """Why a pod is refused; empty where it is not."""
    try:
        client.create(pod, dry_run=True)
    except Refused as refused:
        return str(refused)
    return ""
