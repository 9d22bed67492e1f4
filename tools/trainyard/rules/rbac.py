"""What the account of a job may do, more than it needs or less."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.once import once
from trainyard.rules.common.waits import WAITS_FOR
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping, sequence, text

_READS = frozenset({"*", "get", "list", "watch"})
_BUILT_IN = {
    "cluster-admin": "everything in the cluster",
    "admin": "everything in the namespace",
    "edit": "Secrets and exec",
}


@rule("RBA001", "account-may-do-too-much", Severity.WARNING, needs=Workload)
@once
def account_may_do_too_much(workload: Workload) -> Iterator[Problem]:
    """The ServiceAccount of a job may do anything, read Secrets, or open a shell in other pods.

    Its token lies in every pod, readable by whatever the training program loads. Training needs no API at all; a
    launcher or an autoscaler needs the verbs that it uses on the kinds that it uses.

    Bad:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, name: llama-sft, namespace: research}]
    Good:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
        subjects: [{kind: ServiceAccount, name: llama-sft, namespace: research}]
    Near miss:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: deploy, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, name: deployer, namespace: research}]

    Source: https://kubernetes.io/docs/concepts/security/rbac-good-practices/
    """
    for account in _accounts(workload):
        for binding in _bindings(workload, account):
            reference = mapping(binding.data.get("roleRef"))
            name = text(reference.get("name"))
            if name in _BUILT_IN and reference.get("kind") == "ClusterRole":
                yield Problem(
                    f"ServiceAccount {account} of the job is bound to {name}: {_BUILT_IN[name]}",
                    binding.at("roleRef", "name", label="far more than training needs"),
                    help="bind a Role with the verbs and kinds that the job uses, or none",
                )
            role = _role(workload, binding)
            for what, spot in _too_much(role) if role is not None else ():
                yield Problem(
                    f"ServiceAccount {account} of the job may {what}",
                    spot.saying("more than training needs"),
                    (binding.at("roleRef", "name", label="bound here"),),
                    "name the verbs and kinds that the job uses",
                )


@rule("RBA002", "token-switched-off", Severity.ERROR, needs=Workload)
@once
def token_switched_off(workload: Workload) -> Iterator[Problem]:
    """A container calls the Kubernetes API, but its pod carries no token.

    kubectl, k8s-wait-for and Ray's autoscaler sign in with the token of the pod's ServiceAccount. With
    `automountServiceAccountToken: false` there is none: kubectl looks for a server on localhost, and the autoscaler
    starts no worker.

    Bad:
        kind: Job
        spec: {template: {spec: {initContainers: [
          {name: wait, image: "registry.k8s.io/kubectl:v1.33.0", command: [kubectl, wait, job/data, --for=create]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {automountServiceAccountToken: true, initContainers: [
          {name: wait, image: "registry.k8s.io/kubectl:v1.33.0", command: [kubectl, wait, job/data, --for=create]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {initContainers: [
          {name: wait, image: "busybox:1.37", command: [sh, -c, "until nslookup data; do sleep 2; done"]}]}}}

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
    """
    for pod_set in workload.pod_sets:
        off = _token_off(workload, pod_set)
        caller = next((spot for each in _containers(pod_set) if (spot := _calls(each)) is not None), None)
        if caller is None and pod_set.role == "head" and _autoscales(workload):
            caller = _autoscaling_spot(workload)
        if off is None or caller is None or _own_token(pod_set):
            continue
        yield Problem(
            "the pods call the Kubernetes API, but have no token for it",
            pod_set.template.below("spec", "automountServiceAccountToken", label="no token"),
            (caller.saying("calls the API"), *(() if off.object is pod_set.template.object else (off,))),
            "set automountServiceAccountToken: true on these pods, and give their account what it needs",
        )


@rule("RBA003", "binding-of-nobody", Severity.ERROR, needs=Workload, fix="safe")
@once
def binding_of_nobody(workload: Workload) -> Iterator[Problem]:
    """A binding means the job's ServiceAccount and names one of another namespace.

    The account of the job then has no rights: what it asks of the API is forbidden. A subject without a namespace is of
    the RoleBinding's own; in a ClusterRoleBinding, which has none, the API server refuses it.

    Bad:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch-pods}
        subjects: [{kind: ServiceAccount, name: llama-sft, namespace: default}]
    Good:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch-pods}
        subjects: [{kind: ServiceAccount, name: llama-sft, namespace: research}]
    Near miss:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch-pods}
        subjects: [{kind: ServiceAccount, name: default, namespace: tools}]
    Near miss:
        kind: RoleBinding
        apiVersion: rbac.authorization.k8s.io/v1
        metadata: {name: train, namespace: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch-pods}
        subjects: [{kind: ServiceAccount, name: llama-sft}]

    Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
    """
    own = workload.object.namespace
    for account in _accounts(workload):
        there = {item.namespace for item in workload.objects if (item.kind, item.name) == ("ServiceAccount", account)}
        if account == "default" or not own or own not in there:
            continue
        for binding in (*workload.of_kind("RoleBinding"), *workload.of_cluster("ClusterRoleBinding")):
            for index, subject in entries(binding.data.get("subjects")):
                namespace = _namespace(binding, subject)
                ours = (subject.get("kind"), subject.get("name")) == ("ServiceAccount", account)
                if not ours or namespace == own or namespace in there or (namespace and not binding.namespace):
                    continue
                if namespace:
                    what = f"means ServiceAccount {account} of namespace {namespace}, but the job's is in {own}"
                else:
                    what = f"names ServiceAccount {account} without a namespace, which the API server refuses"
                yield Problem(
                    f"{binding.kind} {binding.name} {what}",
                    binding.at("subjects", index, "namespace", label=f"expected {own}"),
                    help=f"write namespace: {own}",
                    fix=put(binding.at("subjects", index, "namespace"), own),
                )


def _accounts(workload: Workload) -> list[str]:
    """The ServiceAccounts that pods run as."""
    names = (text(pod_set.spec.get("serviceAccountName")) or "default" for pod_set in workload.pod_sets)
    return list(dict.fromkeys(names))


def _bindings(workload: Workload, account: str) -> Iterator[Object]:
    """The bindings that give the account rights: those of its namespace, and those for the whole cluster."""
    own = workload.object.namespace
    for binding in (*workload.of_kind("RoleBinding"), *workload.of_cluster("ClusterRoleBinding")):
        for _, subject in entries(binding.data.get("subjects")):
            named = (subject.get("kind"), subject.get("name")) == ("ServiceAccount", account)
            if named and _namespace(binding, subject) in (own, own or "default"):
                yield binding
                break


def _namespace(binding: Object, subject: Mapping[Any, Any]) -> str:
    """The namespace that a ServiceAccount of a binding is of: the binding's own where the subject names none."""
    return text(subject.get("namespace")) or binding.namespace


def _role(workload: Workload, binding: Object) -> Object | None:
    reference = mapping(binding.data.get("roleRef"))
    kind = text(reference.get("kind"))
    roles = workload.of_kind("Role") if kind == "Role" else workload.of_cluster("ClusterRole")
    return next((item for item in roles if item.name == reference.get("name")), None)


def _too_much(role: Object) -> Iterator[tuple[str, Spot]]:
    """What a role allows that no job needs, one for each of its rules."""
    for index, allowed in entries(role.data.get("rules")):
        verbs, resources, groups = (sequence(allowed.get(field)) for field in ("verbs", "resources", "apiGroups"))
        spot = role.at("rules", index)
        core = "" in groups or "*" in groups
        if "*" in resources:
            yield (
                f"{'do anything with' if '*' in verbs else _listed(verbs)} every kind of object",
                spot.below("resources"),
            )
        elif "*" in verbs:
            yield f"do anything with {_listed(resources)}", spot.below("verbs")
        elif core and "secrets" in resources and _READS.intersection(verbs) and not allowed.get("resourceNames"):
            yield "read all Secrets of the namespace", spot.below("resources")
        elif core and {"pods/exec", "pods/attach"}.intersection(resources) and not allowed.get("resourceNames"):
            yield "open a shell in any pod of the namespace", spot.below("resources")


def _containers(pod_set: PodSet) -> tuple[Container, ...]:
    return (*pod_set.init_containers, *pod_set.containers)


def _calls(container: Container) -> Spot | None:
    if WAITS_FOR.match(container.image):
        return container.spot.below("image")
    return next((word.spot for word in container.words if basename(word) == "kubectl"), None)


def _autoscales(workload: Workload) -> bool:
    return mapping(_cluster_spec(workload)).get("enableInTreeAutoscaling") is True


def _cluster_spec(workload: Workload) -> Mapping[str, Any]:
    spec = mapping(workload.object.data.get("spec"))
    return mapping(spec.get("rayClusterSpec")) if workload.object.kind == "RayJob" else spec


def _autoscaling_spot(workload: Workload) -> Spot:
    below = ("rayClusterSpec",) if workload.object.kind == "RayJob" else ()
    return workload.object.at("spec", *below, "enableInTreeAutoscaling")


def _token_off(workload: Workload, pod_set: PodSet) -> Spot | None:
    """What switches the pods' token off: the pod template, else its ServiceAccount."""
    own = pod_set.spec.get("automountServiceAccountToken")
    if own is not None:
        return pod_set.template.below("spec", "automountServiceAccountToken") if own is False else None
    name = text(pod_set.spec.get("serviceAccountName")) or "default"
    for account in workload.of_kind("ServiceAccount"):
        if account.name == name and account.data.get("automountServiceAccountToken") is False:
            return account.at("automountServiceAccountToken", label="switched off for all its pods")
    return None


def _own_token(pod_set: PodSet) -> bool:
    """Whether the pods mount a token, or a kubeconfig, by themselves."""
    sources = (mapping(volume.get("projected")).get("sources") for _, volume in entries(pod_set.spec.get("volumes")))
    if any("serviceAccountToken" in source for listed in sources for _, source in entries(listed)):
        return True
    return any("KUBECONFIG" in container.env for container in _containers(pod_set))


def _listed(items: list[Any]) -> str:
    return ", ".join(str(item) for item in items)
