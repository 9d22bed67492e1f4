"""Rules on what a job folder may hold, and whose it is: GIT004, GIT005 and GIT019."""

from collections.abc import Iterator
from pathlib import PurePath

from trainyard.allowed.statement import statement
from trainyard.findings.finding import Severity
from trainyard.objects.unit import Unit
from trainyard.rules.common.plain_secrets import is_plain_secret
from trainyard.rules.gitops.fields import label
from trainyard.rules.registry import Problem, rule

_TEAM = "trainyard.dev/team"


@rule("GIT004", "kind-not-for-jobs", Severity.ERROR, needs=Unit, guarded=True)
def kind_not_for_jobs(unit: Unit) -> Iterator[Problem]:
    """A job folder holds an object that is not a researcher's to write.

    A folder may hold what one job needs: its job object, ConfigMaps, Services, claims, a ServiceAccount, policies,
    a PodGroup, external secrets and a PodMonitor, each in the version whose fields are known (schemas/job-folder.yaml).
    Rights, quotas, queues and anything that runs on every node belong to the cluster's folder, where the platform team
    reviews them.

    Bad:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: llama-sft, namespace: research}
    Good:
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: llama-sft, namespace: research}
    Near miss:
        # whole
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: platform, namespace: research}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/projects/
    """
    if not unit.is_job:
        return
    known = statement().kinds
    for obj in unit.objects:
        if (obj.api_version, obj.kind) in known:
            continue
        message = f"a job folder may not hold a {obj.kind} ({obj.api_version})"
        versions = [version for version, kind in known if (kind, _group(version)) == (obj.kind, obj.group)]
        if versions:
            yield Problem(message, obj.at("apiVersion"), help=f"write apiVersion: {versions[0]}")
        elif not is_plain_secret(obj):
            yield Problem(message, obj.at("kind"), help="objects of this kind belong to clusters/")


@rule("GIT005", "other-namespace", Severity.ERROR, needs=Unit, guarded=True)
def other_namespace(unit: Unit) -> Iterator[Problem]:
    """A job folder holds an object outside its team's namespace.

    The folder is jobs/<team>/<job>, and the team is the namespace. An object elsewhere would act on another team's
    quota, secrets or policies; one without a namespace is the cluster's.

    Bad:
        kind: Service
        metadata: {name: llama-sft, namespace: vision}
    Good:
        kind: Service
        metadata: {name: llama-sft, namespace: research}
    Near miss:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: llama-sft, namespace: vision}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/projects/
    """
    team = _team(unit)
    if not team:
        return
    for obj in unit.objects:
        if obj.namespace == team or (obj.api_version, obj.kind) not in statement().kinds:
            continue
        where = f"is in namespace {obj.namespace}" if obj.namespace else "has no namespace"
        yield Problem(
            f"{obj.kind} {obj.name} {where}, but this folder belongs to {team}",
            obj.at("metadata", "namespace"),
            help=f"keep namespace: {team} in kustomization.yaml, and no other in the folder",
        )


@rule("GIT019", "team-not-there", Severity.ERROR, needs=Unit)
def team_not_there(unit: Unit) -> Iterator[Problem]:
    """A team has no namespace on the cluster that its job lands on.

    The platform of a cluster makes a namespace for each team, with its quota, its claims and the account by which Argo
    CD or Flux applies its jobs. Without it nothing of the job is created. Clusters whose platform makes no namespace
    for any team are left alone.

    Bad:
        kind: Namespace
        apiVersion: v1
        metadata: {name: vision, labels: {trainyard.dev/team: vision}}
    Good:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {trainyard.dev/team: research}}
    Near miss:
        kind: Namespace
        apiVersion: v1
        metadata: {name: monitoring}

    Source: base/team/
    """
    team = _team(unit)
    made = [obj for obj in (*unit.objects, *(unit.platform or ())) if (obj.group, obj.kind) == ("", "Namespace")]
    teams = sorted(obj.name for obj in made if label(obj, _TEAM))
    if not team or not teams or any(obj.name == team for obj in made):
        return
    cluster = unit.fact("Cluster")
    where = f"cluster {cluster.name}" if cluster is not None else "the cluster"
    for obj in unit.objects:
        if obj.namespace == team:
            yield Problem(
                f"{where} has no namespace for team {team}",
                obj.at("metadata", "namespace", label="nothing is created"),
                help=f"its teams are {', '.join(teams)}; the owners of the cluster add one in its platform folder",
            )
            return


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _team(unit: Unit) -> str:
    """The team of a job folder: jobs/<team>/<job>, else the namespace that its TrainingJob got."""
    if not unit.is_job:
        return ""
    parts = PurePath(unit.name).parts
    if len(parts) >= 3 and parts[-3] == "jobs":
        return parts[-2]
    job = unit.fact("TrainingJob")
    return job.namespace if job is not None else ""
