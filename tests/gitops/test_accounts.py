"""What Flux's account `jobs` may do on a real API server, with lint left out: list the jobs of teams, and no more."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.harness import ground
from tests.gitops.folders import built
from tests.gitops.hostile import CLUSTER, Row, changed, repository, rows
from tests.gitops.test_server import namespace
from trainyard.controlplane import Client, Refused
from trainyard.controlplane.client import User
from trainyard.controlplane.definitions import load_definitions
from trainyard.kustomize.render import render

pytestmark = pytest.mark.controlplane

TEAMS = ("research", "vision")
JOBS = User.service_account("flux-system", "jobs")
LIST = f"clusters/{CLUSTER}/flux/jobs"
ROWS = rows(Path(__file__).with_name("attacks.yaml"))
REFUSED = [row for row in ROWS if row.refused]
HARMLESS = [row for row in ROWS if not row.told]


@dataclass(frozen=True, slots=True)
class Flux:
    """A cluster that Flux serves, and what its account `jobs` sees of it."""

    root: Path
    admin: Client
    jobs: Client

    def sync(self) -> list[str]:
        """Apply the list of jobs as Flux does, and say what was refused."""
        (made,) = render(self.root, [LIST])
        assert not made.error
        said = []
        for data in made.objects:
            try:
                self.jobs.apply(data, dry_run=True)
            except Refused as refused:
                said.append(str(refused))
        return said


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flux]:
    root = repository(tmp_path_factory.mktemp("flux"))
    items: list[dict[str, Any]] = [
        item for kind in ("flux", "flux/teams") for item in yaml.safe_load_all(built(f"clusters/{CLUSTER}/{kind}"))
    ]
    with ground("kube-controller-manager") as made, contextlib.closing(made.client) as admin:
        load_definitions(admin, {(item["apiVersion"], item["kind"]) for item in items} | {("apps/v1", "DaemonSet")})
        admin.apply(namespace("flux-system"))
        for team in TEAMS:
            admin.apply(namespace(team) | {"metadata": {"name": team, "labels": {"trainyard.dev/team": team}}})
        for item in items:
            admin.apply(item)
            if item["metadata"].get("namespace") == "research" and item["kind"] in ("Role", "RoleBinding"):
                admin.apply(item | {"metadata": item["metadata"] | {"namespace": "vision"}})
        jobs = admin.acting_as(JOBS)
        bad = {
            "apiVersion": items[1]["apiVersion"],
            "kind": "Kustomization",
            "metadata": {"name": "x", "namespace": "research"},
        }
        bad["spec"] = {
            "interval": "1m",
            "prune": False,
            "path": "./x",
            "sourceRef": {"kind": "GitRepository", "name": "trainyard"},
        }
        admin.until("policy that is in force", lambda: _refuses(admin, bad))
        yield Flux(root, admin, jobs)


def _refuses(client: Client, data: dict[str, Any]) -> bool:
    try:
        client.apply(data, dry_run=True)
    except Refused:
        return True
    return False


def test_the_list_of_this_repository_is_applied(flux: Flux) -> None:
    assert flux.sync() == []


@pytest.mark.claim("account-of-the-list")
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_a_list_that_asks_for_more_is_refused(flux: Flux, row: Row) -> None:
    with changed(flux.root, row):
        said = flux.sync()

    assert any(row.refused in each for each in said), said


@pytest.mark.parametrize("row", HARMLESS, ids=lambda row: row.name)
def test_a_near_miss_is_applied(flux: Flux, row: Row) -> None:
    with changed(flux.root, row):
        assert flux.sync() == []


@pytest.mark.claim("account-of-the-list")
def test_the_account_may_list_jobs_in_the_namespaces_of_teams_and_nothing_else(flux: Flux) -> None:
    kustomizations = "kustomizations.kustomize.toolkit.fluxcd.io"
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    resources = (
        kustomizations,
        "gitrepositories.source.toolkit.fluxcd.io",
        "configmaps",
        "jobs.batch",
        "pods",
        "rolebindings.rbac.authorization.k8s.io",
        "secrets",
        "serviceaccounts",
    )
    found = {
        (space, resource): allowed
        for space in (*TEAMS, "flux-system", "default", "kube-system", "")
        for resource in resources
        if (allowed := [verb for verb in verbs if flux.admin.allowed(JOBS, verb, resource, space)])
    }

    held = ["get", "list", "watch", "create", "patch", "delete"]
    assert found == {(team, kustomizations): held for team in TEAMS}


def test_a_job_that_leaves_the_list_is_deleted_by_the_account(flux: Flux) -> None:
    (made,) = render(flux.root, [LIST])
    (entry,) = made.objects
    entry["metadata"]["finalizers"] = ["finalizers.fluxcd.io"]
    flux.jobs.apply(entry)

    flux.jobs.delete(entry)
    flux.admin.patch(entry, {"metadata": {"finalizers": None}})

    assert flux.admin.list(entry["apiVersion"], entry["kind"], entry["metadata"]["namespace"]) == []
