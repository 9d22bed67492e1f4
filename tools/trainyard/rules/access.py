"""Containers that ask the API server, and the rights of their pod: ACC001."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.parts import items, word, words
from trainyard.rules.common.waits import WAITS_FOR
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import text

_VERBS = {
    "apply": "patch",
    "create": "create",
    "delete": "delete",
    "describe": "get",
    "get": "get",
    "logs": "get",
    "patch": "patch",
    "scale": "patch",
    "wait": "get",
}
_KINDS = {
    "configmap": ("", "configmaps"),
    "deployment": ("apps", "deployments"),
    "deploy": ("apps", "deployments"),
    "job": ("batch", "jobs"),
    "jobset": ("jobset.x-k8s.io", "jobsets"),
    "mpijob": ("kubeflow.org", "mpijobs"),
    "node": ("", "nodes"),
    "pod": ("", "pods"),
    "po": ("", "pods"),
    "pod-we": ("", "pods"),
    "pod-wr": ("", "pods"),
    "job-we": ("batch", "jobs"),
    "job-wr": ("batch", "jobs"),
    "pytorchjob": ("kubeflow.org", "pytorchjobs"),
    "rayjob": ("ray.io", "rayjobs"),
    "secret": ("", "secrets"),
    "service": ("", "services"),
    "svc": ("", "services"),
    "trainjob": ("trainer.kubeflow.org", "trainjobs"),
}


@dataclass(frozen=True, slots=True)
class _Need:
    """What a container asks the API server for."""

    verb: str
    group: str
    resource: str

    @property
    def name(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


@rule("ACC001", "api-without-rights", Severity.ERROR, needs=Workload)
def api_without_rights(workload: Workload) -> Iterator[Problem]:
    """A container asks the API server for something that its pod may not see.

    Containers that wait for another job, by kubectl or by k8s-wait-for, act as the pod's ServiceAccount. The account
    named default has no rights: the container fails, and the pod never gets further.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              serviceAccountName: null
              automountServiceAccountToken: null
              initContainers: [{name: wait, image: bitnami/kubectl, command: [kubectl, wait, job/data, --for=create]}]
    Good:
        kind: Job
        spec:
          template:
            spec:
              automountServiceAccountToken: null
              serviceAccountName: waits
              initContainers: [{name: wait, image: bitnami/kubectl, command: [kubectl, wait, job/data, --for=create]}]
        ---
        apiVersion: v1
        kind: ServiceAccount
        metadata: {name: waits, namespace: research}
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata: {name: waits, namespace: research}
        rules: [{apiGroups: [batch], resources: [jobs], verbs: [get, list, watch]}]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: waits, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: waits}
        subjects: [{kind: ServiceAccount, name: waits, namespace: research}]
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              automountServiceAccountToken: null
              serviceAccountName: made-by-the-platform
              initContainers: [{name: wait, image: bitnami/kubectl, command: [kubectl, wait, job/data, --for=create]}]

    Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
    """
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            need = None if container.by_controller else _need(container)
            said = "" if need is None else _lacks(workload, pod_set, need)
            if need is not None and said:
                yield Problem(
                    f"container {container.name} must {need.name}, but {said}",
                    pod_set.template.below("spec", "serviceAccountName"),
                    (container.spot.saying("asks the API server"),),
                    f"name a ServiceAccount that a RoleBinding lets {need.name}",
                )
                break


def _need(container: Container) -> _Need | None:
    """What a container asks for; None where it asks for nothing, or for what is not clear."""
    told = [each.text for each in container.words if each.known]
    if WAITS_FOR.match(container.image):
        written = [
            text(each) for _, each in (*words(container.spot.below("command")), *words(container.spot.below("args")))
        ]
        kind = _KINDS.get(written[0].lower()) if written else None
        return None if kind is None else _Need("get", *kind)
    at = next((i for i, each in enumerate(container.words) if basename(each) == "kubectl"), None)
    if at is None or len(told) != len(container.words) or _elsewhere(told[at:]):
        return None
    plain = [each for each in told[at + 1 :] if not each.startswith("-")]
    verb = _VERBS.get(plain[0]) if plain else None
    if verb is None or len(plain) < 2:
        return None
    kind = ("", "pods") if plain[0] == "logs" and "/" not in plain[1] else _kind(plain[1])
    return None if kind is None else _Need(verb, *kind)


def _kind(written: str) -> tuple[str, str] | None:
    """The API group and the plural of `jobs`, `job/name` or `jobs.batch`."""
    name = written.partition("/")[0].partition(".")[0].lower()
    return _KINDS.get(name) or _KINDS.get(name.removesuffix("s"))


def _elsewhere(told: list[str]) -> bool:
    """Whether kubectl is told of another cluster, account or namespace."""
    flags = {word.partition("=")[0] for word in told}
    return bool(
        flags & {"--kubeconfig", "--token", "--server", "-s", "-n", "--namespace", "--as", "--context", "version"}
    )


def _lacks(workload: Workload, pod_set: PodSet, need: _Need) -> str:
    """Why a pod may not do what it must; empty where it may, where that is not known, or where it has no token."""
    name = text(pod_set.spec.get("serviceAccountName")) or "default"
    accounts = [item for item in workload.of_kind("ServiceAccount") if item.name == name]
    own = pod_set.spec.get("automountServiceAccountToken")
    closed = any(item.data.get("automountServiceAccountToken") is False for item in accounts)
    if own is False or (own is None and closed) or (name != "default" and not accounts):
        return ""
    bindings = [item for item in _bindings(workload) if _binds(item, name)]
    if any(_grants(workload, item, need) for item in bindings):
        return ""
    return f"ServiceAccount {name} {'has no role that lets it' if bindings else 'is bound to no role'}"


def _bindings(workload: Workload) -> Iterator[Object]:
    yield from workload.of_kind("RoleBinding")
    yield from workload.of_cluster("ClusterRoleBinding")


def _binds(binding: Object, name: str) -> bool:
    """Whether a binding means the account; one that misses its namespace is told by rule binding-of-nobody."""
    for _, subject in items(binding.at("subjects")):
        if subject.get("kind") == "ServiceAccount" and subject.get("name") == name:
            return True
        if subject.get("kind") == "Group" and str(subject.get("name")).startswith("system:serviceaccounts"):
            return True
    return False


def _grants(workload: Workload, binding: Object, need: _Need) -> bool:
    """Whether the role of a binding lets its subjects do what is needed; a role that is not known is taken to."""
    kind, name = word(binding.at("roleRef", "kind")), word(binding.at("roleRef", "name"))
    roles = workload.of_kind("Role") if kind == "Role" else workload.of_cluster("ClusterRole")
    role = next((item for item in roles if item.name == name), None)
    if role is None:
        return True
    for spot, _ in items(role.at("rules")):
        listed = [{each for _, each in words(spot.below(field))} for field in ("apiGroups", "resources", "verbs")]
        wanted = (need.group, need.resource, need.verb)
        if all(each & {one, "*"} for each, one in zip(listed, wanted, strict=True)):
            return True
    return False
