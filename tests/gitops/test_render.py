"""clusters/<name>/argocd and flux: everything renders, is valid, and says of each cluster what is that cluster's."""

import pytest

from tests.gitops.folders import CLUSTERS, HOME, KINDS, built, objects, of_kind, teams, unit_of
from trainyard.allowed.kinds import groups
from trainyard.allowed.statement import statement
from trainyard.schemas.schema import check

FOLDERS = [f"clusters/{cluster}/{kind}" for cluster in CLUSTERS for kind in KINDS]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_object_is_valid(folder: str) -> None:
    assert [(problem.object.title, problem.message) for problem in check([unit_of(folder)])] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_fact_and_no_default_survives(folder: str) -> None:
    text = built(folder)

    assert "local-config" not in text
    for default in ("clusters/cluster", "jobs/team", ": team\n", ": repository\n", ": branch\n", ": cluster\n"):
        assert default not in text


@pytest.mark.slow_build
@pytest.mark.parametrize("version", ["5.0.3", "5.4.3"])
@pytest.mark.parametrize("kind", KINDS)
def test_old_kustomize_gives_the_same_bytes(kind: str, version: str) -> None:
    folder = f"clusters/gpu-east/{kind}"

    assert built(folder, f"old/kustomize-{version}") == built(folder)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_team_of_a_cluster_has_its_project_and_its_applications(cluster: str) -> None:
    items = objects(cluster, "argocd")

    projects = {project["metadata"]["name"] for project in of_kind(items, "AppProject")}
    sets = {item["metadata"]["name"] for item in of_kind(items, "ApplicationSet")}

    assert projects == {*teams(cluster), "platform"}
    assert sets == set(teams(cluster))


@pytest.mark.claim("applied-as-the-team")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_project_allows_a_team_its_namespace_and_the_kinds_of_a_job(cluster: str) -> None:
    for project in of_kind(objects(cluster, "argocd"), "AppProject"):
        name, spec = project["metadata"]["name"], project["spec"]
        if name == "platform":
            continue
        here = {"server": "https://kubernetes.default.svc", "namespace": name}
        assert spec["destinations"] == [here]
        assert spec["destinationServiceAccounts"] == [here | {"defaultServiceAccount": "gitops"}]
        assert spec["clusterResourceWhitelist"] == []
        kinds = {(each["group"], each["kind"]) for each in spec["namespaceResourceWhitelist"]}
        assert kinds == {(group, kind) for group, kinds in groups(statement()).items() for kind in kinds}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_cluster_follows_its_own_folders(cluster: str) -> None:
    applications = of_kind(objects(cluster, "argocd"), "Application")
    kustomizations = of_kind(objects(cluster, "flux"), "Kustomization")

    assert {item["metadata"]["name"]: item["spec"]["source"]["path"] for item in applications} == {
        "argocd": f"clusters/{cluster}/argocd",
        "platform": f"clusters/{cluster}/platform",
    }
    assert {item["metadata"]["name"]: item["spec"]["path"] for item in kustomizations} == {
        "flux": f"./clusters/{cluster}/flux",
        "jobs": f"./clusters/{cluster}/flux/jobs",
        "platform": f"./clusters/{cluster}/platform",
        "teams": f"./clusters/{cluster}/flux/teams",
    }


def test_the_address_of_the_repository_stands_in_one_file() -> None:
    (repository,) = (HOME / "base" / "gitops" / "repository").glob("config-map.yaml")
    address = next(line.split()[1] for line in repository.read_text().splitlines() if line.startswith("  url: "))

    files = [*HOME.glob("base/**/*.yaml"), *HOME.glob("clusters/**/*.yaml")]

    assert [file for file in files if address in file.read_text()] == [repository]
    for cluster in CLUSTERS:
        items = objects(cluster, "argocd")
        said = {item["spec"]["source"]["repoURL"] for item in of_kind(items, "Application")}
        said |= {url for item in of_kind(items, "AppProject") for url in item["spec"]["sourceRepos"]}
        said |= {item["spec"]["template"]["spec"]["source"]["repoURL"] for item in of_kind(items, "ApplicationSet")}
        said |= {item["spec"]["generators"][0]["git"]["repoURL"] for item in of_kind(items, "ApplicationSet")}
        for kind in ("flux", "flux/teams"):
            said |= {item["spec"]["url"] for item in of_kind(objects(cluster, kind), "GitRepository")}
        assert said == {address}


@pytest.mark.claim("applied-as-the-team")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_flux_applies_a_job_as_its_team_and_leaves_alone_what_is_there(cluster: str) -> None:
    for job in of_kind(objects(cluster, "flux/jobs"), "Kustomization"):
        spec, metadata = job["spec"], job["metadata"]
        assert spec["path"] == f"./jobs/{metadata['namespace']}/{metadata['name']}"
        assert metadata["namespace"] in teams(cluster)
        assert spec["serviceAccountName"] == "gitops"
        assert spec["commonMetadata"] == {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}}
        assert (spec["prune"], spec["deletionPolicy"], spec["wait"]) == (False, "Delete", True)
        assert spec["dependsOn"] == [{"name": "platform", "namespace": "flux-system"}]


@pytest.mark.claim("fits-flux-lockdown")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_flux_needs_no_source_of_another_namespace(cluster: str) -> None:
    """So that it runs with --no-cross-namespace-refs."""
    items = [item for kind in ("flux", "flux/jobs", "flux/teams") for item in objects(cluster, kind)]
    sources = {(item.namespace, item.name) for item in items if item.kind == "GitRepository"}

    assert sources == {(name, "trainyard") for name in ("flux-system", *teams(cluster))}
    for item in of_kind(items, "Kustomization"):
        named = item["spec"]["sourceRef"]
        assert (named["kind"], named["name"], named.get("namespace")) == ("GitRepository", "trainyard", None)


@pytest.mark.claim("fits-flux-lockdown")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_kustomization_of_flux_names_its_account(cluster: str) -> None:
    """So that Flux runs with --default-service-account."""
    accounts = {
        item["metadata"]["name"]: item["spec"]["serviceAccountName"]
        for item in of_kind(objects(cluster, "flux"), "Kustomization")
    }

    flux = "kustomize-controller"
    assert accounts == {"flux": flux, "platform": flux, "teams": flux, "jobs": "jobs"}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_argo_cd_leaves_alone_what_is_there(cluster: str) -> None:
    for item in of_kind(objects(cluster, "argocd"), "ApplicationSet"):
        spec = item["spec"]["template"]["spec"]
        (ignored,) = spec["ignoreDifferences"]
        assert (ignored["group"], ignored["kind"]) == ("*", "*")
        options = spec["syncPolicy"]["syncOptions"]
        assert "RespectIgnoreDifferences=true" in options
        assert "SkipDryRunOnMissingResource=true" in options
        assert spec["syncPolicy"]["automated"] == {"prune": False, "selfHeal": True}


def test_what_is_ignored_is_all_that_the_objects_of_a_job_hold_beside_their_metadata() -> None:
    spec = of_kind(objects(CLUSTERS[0], "argocd"), "ApplicationSet")[0]["spec"]["template"]["spec"]
    ignored = {pointer.removeprefix("/") for pointer in spec["ignoreDifferences"][0]["jsonPointers"]}

    jobs = [file.parent.relative_to(HOME).as_posix() for file in HOME.glob("jobs/*/*/job.yaml")]
    held = {key for job in jobs for item in unit_of(job).objects for key in item.data}

    assert held - {"apiVersion", "kind", "metadata"} <= ignored
