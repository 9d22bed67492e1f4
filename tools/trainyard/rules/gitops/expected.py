"""What the folders hold from which Argo CD and Flux start: every object, and every field of it.

This is base/gitops turned into a list of what is allowed. A map allows its keys and no others; `ANY` allows whatever
stands there, and nothing too; `Among` a list of some of its items; any other value must be there as it is. A key that
ends in * stands for all that begin like it. <cluster>, <namespace> and <name> are those of the folder and the object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.allowed.kinds import groups
from trainyard.allowed.statement import statement

ANY: Any = ...


@dataclass(frozen=True, slots=True)
class Among:
    """A list that holds some of these items."""

    items: Callable[[], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ExpectedObject:
    """An object that a folder may hold."""

    group: str
    kind: str
    namespace: str
    """* for any; empty for an object of the cluster."""
    name: str
    """* for any."""
    fields: Mapping[str, Any]
    """What it says beside apiVersion, kind and metadata."""
    required: bool = False
    """True where a folder that lacks it is wrong."""


_FLUX = "kustomize.toolkit.fluxcd.io"
_ARGO_CD = "argoproj.io"
_RIGHTS = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_HERE = "https://kubernetes.default.svc"

_SOURCE = {"kind": "GitRepository", "name": "trainyard"}
_WHEN = dict.fromkeys(("dependsOn", "interval", "retryInterval", "suspend", "timeout", "wait"), ANY)
_REPOSITORY = {
    "spec": dict.fromkeys(
        ("interval", "provider", "proxySecretRef", "ref", "secretRef", "suspend", "timeout", "url", "verify"), ANY
    )
}


def _kinds_of_a_job() -> list[dict[str, str]]:
    """Every kind that a job folder may hold, as a project of Argo CD lists it."""
    return [{"group": group, "kind": kind} for group, kinds in groups(statement()).items() for kind in kinds]


def _of_flux(name: str, path: str, account: str, *, prune: bool) -> ExpectedObject:
    spec = {"path": f"./clusters/<cluster>/{path}", "serviceAccountName": account, "prune": prune, "sourceRef": _SOURCE}
    return ExpectedObject(_FLUX, "Kustomization", "flux-system", name, {"spec": _WHEN | spec})


_OF_FLUX = (
    ExpectedObject("source.toolkit.fluxcd.io", "GitRepository", "flux-system", "trainyard", _REPOSITORY),
    ExpectedObject("", "ServiceAccount", "flux-system", "jobs", {"automountServiceAccountToken": False}),
    _of_flux("flux", "flux", "kustomize-controller", prune=False),
    _of_flux("platform", "platform", "kustomize-controller", prune=False),
    _of_flux("teams", "flux/teams", "kustomize-controller", prune=False),
    _of_flux("jobs", "flux/jobs", "jobs", prune=True),
)

_POLICY = "kustomization-of-a-job.trainyard.dev"
_OF_TEAMS = (
    ExpectedObject("source.toolkit.fluxcd.io", "GitRepository", "*", "trainyard", _REPOSITORY),
    ExpectedObject(
        _RIGHTS,
        "Role",
        "*",
        "jobs",
        {
            "rules": [
                {
                    "apiGroups": [_FLUX],
                    "resources": ["kustomizations"],
                    "verbs": ["get", "list", "watch", "create", "patch", "delete"],
                }
            ]
        },
    ),
    ExpectedObject(
        _RIGHTS,
        "RoleBinding",
        "*",
        "jobs",
        {
            "roleRef": {"apiGroup": _RIGHTS, "kind": "Role", "name": "jobs"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "flux-system", "name": "jobs"}],
        },
    ),
    ExpectedObject(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        "",
        _POLICY,
        {
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [_FLUX],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["kustomizations"],
                        }
                    ]
                },
                "matchConditions": ANY,
                "variables": ANY,
                "validations": ANY,
            }
        },
        required=True,
    ),
    ExpectedObject(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "",
        _POLICY,
        {
            "spec": {
                "policyName": _POLICY,
                "validationActions": ["Deny"],
                "matchResources": {
                    "namespaceSelector": {"matchExpressions": [{"key": "trainyard.dev/team", "operator": "Exists"}]}
                },
            }
        },
        required=True,
    ),
)

_OF_JOBS = (
    ExpectedObject(
        _FLUX,
        "Kustomization",
        "*",
        "*",
        {
            "spec": _WHEN
            | {
                "path": "./jobs/<namespace>/<name>",
                "sourceRef": _SOURCE,
                "serviceAccountName": "gitops",
                "prune": False,
                "deletionPolicy": "Delete",
                "commonMetadata": {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}},
                "healthCheckExprs": ANY,
            }
        },
    ),
)

_SYNC = dict.fromkeys(("automated", "managedNamespaceMetadata", "retry", "syncOptions"), ANY)


def _of_argo_cd(name: str, destination: Mapping[str, str]) -> ExpectedObject:
    spec = {
        "project": "platform",
        "source": {"repoURL": ANY, "targetRevision": ANY, "path": f"clusters/<cluster>/{name}"},
        "destination": destination,
        "syncPolicy": _SYNC,
        "revisionHistoryLimit": ANY,
        "ignoreDifferences": ANY,
    }
    return ExpectedObject(_ARGO_CD, "Application", "argocd", name, {"spec": spec})


_PROJECT = dict.fromkeys(("description", "orphanedResources", "signatureKeys", "syncWindows"), ANY) | {
    "sourceRepos": [ANY]
}
_TEAM = {"server": _HERE, "namespace": "<name>"}
_OF_ARGO_CD = (
    _of_argo_cd("platform", {"server": _HERE}),
    _of_argo_cd("argocd", {"server": _HERE, "namespace": "argocd"}),
    ExpectedObject(
        "",
        "ConfigMap",
        "argocd",
        "argocd-cm",
        {"data": {"application.sync.impersonation.enabled": "true", "resource.customizations.health.*": ANY}},
    ),
    ExpectedObject(
        _ARGO_CD,
        "AppProject",
        "argocd",
        "platform",
        {
            "spec": _PROJECT
            | {
                "destinations": [{"server": _HERE, "namespace": "*"}],
                "destinationServiceAccounts": [{"server": _HERE, "namespace": "*", "defaultServiceAccount": ANY}],
                "clusterResourceWhitelist": ANY,
                "namespaceResourceWhitelist": ANY,
            }
        },
    ),
    ExpectedObject(
        _ARGO_CD,
        "AppProject",
        "argocd",
        "*",
        {
            "spec": _PROJECT
            | {
                "destinations": [_TEAM],
                "destinationServiceAccounts": [_TEAM | {"defaultServiceAccount": "gitops"}],
                "clusterResourceWhitelist": [],
                "namespaceResourceWhitelist": Among(_kinds_of_a_job),
            }
        },
    ),
    ExpectedObject(
        _ARGO_CD,
        "ApplicationSet",
        "argocd",
        "*",
        {
            "spec": {
                "goTemplate": True,
                "goTemplateOptions": ["missingkey=error"],
                "generators": [
                    {
                        "git": {
                            "repoURL": ANY,
                            "revision": ANY,
                            "requeueAfterSeconds": ANY,
                            "files": [
                                {"path": "jobs/<name>/*/kustomization.yaml"},
                                {"path": "jobs/<name>/*/*/kustomization.yaml", "exclude": True},
                            ],
                        },
                        "selector": {"matchLabels": {"resources.1": "../../../clusters/<cluster>/facts"}},
                    }
                ],
                "template": {
                    "metadata": {
                        "name": "{{ index .path.segments 1 }}.{{ .path.basename }}",
                        "annotations": ANY,
                        "labels": ANY,
                    },
                    "spec": {
                        "project": "<name>",
                        "source": {"repoURL": ANY, "targetRevision": ANY, "path": "{{ .path.path }}"},
                        "destination": _TEAM,
                        "ignoreDifferences": ANY,
                        "revisionHistoryLimit": ANY,
                        "syncPolicy": _SYNC,
                    },
                },
            }
        },
    ),
)

EXPECTED: Mapping[str, tuple[ExpectedObject, ...]] = {
    "argocd": _OF_ARGO_CD,
    "flux": _OF_FLUX,
    "flux/jobs": _OF_JOBS,
    "flux/teams": _OF_TEAMS,
}
"""By the folder below clusters/<cluster>. The first that fits an object counts."""
