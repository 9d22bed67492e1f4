"""A cluster refuses every attack with lint left out, and no honest neighbour: a real API server is asked as Flux and
Argo CD ask it, with the rights of the team's account."""

import contextlib
import copy
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.attacks import CLUSTER, TEAMS, Attack, attacks, repository
from tests.bases.matrix import replace_in
from tests.controlplane.harness import apply_platform, unit_of
from trainyard.allowed.statement import ACCOUNT_RULE, NODE_RULE
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.kustomize.render import render
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.policy import job_folder
from trainyard.verify.dry_run import gitops
from trainyard.verify.pods import CONTROLLER, pod_of
from trainyard.workload.of_unit import workloads

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
        for policy in job_folder.POLICIES:
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


@pytest.mark.claim("attacks-are-refused")
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


@pytest.mark.claim("pods-are-judged")
@pytest.mark.parametrize("attack", OF_PODS, ids=lambda attack: attack.name)
def test_a_pod_is_refused_whoever_makes_it(admin: Client, rendered: Rendered, attack: Attack) -> None:
    """A controller makes the pods of a job that got past everything else."""
    made = pods(rendered[attack.folder])
    for pod in made:
        has_account(admin, pod)

    said = [refusal(admin.acting_as(CONTROLLER), pod) for pod in made]

    # Of several policies that refuse, the API server names one.
    doors = [f"{rule.lower()}.trainyard.dev" for rule in (NODE_RULE, ACCOUNT_RULE) if rule in attack.refused]
    words = (*doors, "violates PodSecurity", "is invalid")
    assert any(each in text for text in said for each in words), said


@pytest.mark.claim("pods-are-judged")
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
    has_account(admin, pod)
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
    metadata = {"namespace": "research", "generateName": "tensorboard-", **template["metadata"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    has_account(admin, pod)

    assert refusal(admin, pod) == ""


def test_a_team_is_added_as_flux_adds_it(admin: Client, root: Path) -> None:
    """Flux makes the namespace, tries all else without applying it, and applies nothing unless all of it is taken: the
    Team is not there yet when the accounts of its namespace are tried."""
    folders = root / "clusters" / CLUSTER / "platform"
    shutil.copytree(folders / "research", folders / "fresh")
    replace_in(folders / "fresh", "namespace: research\n", "namespace: fresh\n")
    made = unit_of(f"clusters/{CLUSTER}/platform/fresh", root).objects
    (namespace,) = (item for item in made if item.kind == "Namespace")
    others = [item for item in made if item.kind != "Namespace" and admin.serves(item.api_version, item.kind)]
    assert {"Team", "ServiceAccount", "PersistentVolumeClaim", "NetworkPolicy"} <= {item.kind for item in others}

    admin.apply(namespace.data)
    for item in others:
        admin.apply(item.data, dry_run=True)


@pytest.mark.claim("no-team-takes-nothing")
def test_without_a_team_no_pod_is_let_in(admin: Client) -> None:
    """A namespace that somebody labelled by hand, and nobody gave a Team."""
    labels = {"trainyard.dev/team": "alone"}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alone", "labels": labels}})
    spec = {"serviceAccountName": "x", "containers": [{"name": "x", "image": "registry.example.com/x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "alone", "name": "x"}, "spec": spec}
    has_account(admin, pod)

    assert "no params found" in refusal(admin, pod)


def pods(objects: list[Json]) -> list[Json]:
    """The first pod of each template of a folder's jobs."""
    unit = Unit("folder", False, tuple(Object.of(item, index) for index, item in enumerate(objects)))
    return [pod_of(workload, pod_set, 0) for workload in workloads(unit) for pod_set in workload.pod_sets]


def has_account(admin: Client, pod: Json) -> None:
    """Make the account that a pod names: without it the API server looks no further."""
    metadata = {"namespace": pod["metadata"]["namespace"], "name": pod["spec"].get("serviceAccountName", "default")}
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def refusal(client: Client, pod: Json) -> str:
    """Why a pod is refused; empty where it is not."""
    try:
        client.create(pod, dry_run=True)
    except Refused as refused:
        return str(refused)
    return ""
