"""What a cluster's platform gives its teams, and keeps from them: GIT022 to GIT024."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from trainyard.allowed.kinds import groups, plural
from trainyard.allowed.statement import statement
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.policy import POLICIES
from trainyard.policy.model import objects
from trainyard.rules.gitops.fields import label, value
from trainyard.rules.index import all_rules
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import entries, mapping, sequence, strings, text

_TEAM = "trainyard.dev/team"
_ENFORCE = "pod-security.kubernetes.io/enforce"
_LEVELS = ("restricted", "baseline", "privileged")
_RIGHTS = "rbac.authorization.k8s.io"
_READS = frozenset({"get", "list", "watch"})
_WRITES = _READS | {"create", "update", "patch", "delete"}
_EVERYBODY = ("system:authenticated", "system:serviceaccounts", "system:unauthenticated")
_POLICY = "ValidatingAdmissionPolicy"
_OF_GITOPS = ("argocd", "flux-system", "kube-system")
_BUILT_IN = ("admin", "cluster-admin", "edit")


@rule("GIT022", "team-unguarded", Severity.ERROR, needs=Unit, guarded=True)
def team_unguarded(unit: Unit) -> Iterator[Problem]:
    """The namespace of a team lacks what closes it: the policy that denies all traffic, or its Pod Security level.

    A job's own policies open what the job needs and close nothing for other pods. The level is what the pods of the
    cluster's fabric need; a laxer one admits pods that share the node's processes, files or network.

    Bad:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata: {name: research, labels: {trainyard.dev/team: research}}
    Good:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata:
          name: research
          labels: {trainyard.dev/team: research, pod-security.kubernetes.io/enforce: restricted}
        ---
        $platform: true
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: deny, namespace: research}
        spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
    Near miss:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata: {name: monitoring, labels: {pod-security.kubernetes.io/enforce: privileged}}

    Source: base/team/
    """
    held = _held(unit)
    closed = {obj.namespace for obj in held if _denies_all(obj)}
    needed = _level(value(fabric, "spec", "podSecurity")) if (fabric := unit.fact("Fabric")) is not None else None
    for space in _team_namespaces(held):
        if space.name not in closed:
            yield Problem(
                f"namespace {space.name} of a team has no policy that denies all traffic by default",
                space.at("metadata", "name", label="its pods reach everything that no policy closes"),
                help="keep network-policy.yaml of base/team",
            )
        level = _level(label(space, _ENFORCE))
        if needed is not None and level > needed:
            yield Problem(
                f"namespace {space.name} of a team enforces Pod Security {_LEVELS[level]}, "
                f"and its fabric needs {_LEVELS[needed]}",
                space.at("metadata", "labels", _ENFORCE),
                help="let base/team/wiring write the level, from the fabric",
            )


@rule("GIT023", "team-with-more-rights", Severity.ERROR, needs=Unit, guarded=True)
def team_with_more_rights(unit: Unit) -> Iterator[Problem]:
    """A binding gives a team, or an account in its namespace, more than its jobs need.

    Argo CD and Flux apply whatever a job folder holds as the account gitops of the team's namespace, so its rights
    bound what a pull request can do: it writes the kinds of a job and nothing else. In the whole cluster, and in the
    namespaces of other teams, Argo CD and Flux, a team and its accounts may read, but no Secrets. The rule does not
    know the contents of a Role that is not in the platform's folder.

    Bad:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata: {name: research, labels: {trainyard.dev/team: research}}
        ---
        $platform: true
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, name: gitops, namespace: research}]
    Good:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata: {name: research, labels: {trainyard.dev/team: research}}
        ---
        $platform: true
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: research}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
        subjects: [{kind: Group, name: research, apiGroup: rbac.authorization.k8s.io}]
    Near miss:
        $platform: true
        apiVersion: v1
        kind: Namespace
        metadata: {name: research, labels: {trainyard.dev/team: research}}
        ---
        $platform: true
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: tuning}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, name: tuning, namespace: node-tuning}]

    Source: base/team/role-gitops.yaml
    """
    held = _held(unit)
    teams = {space.name for space in _team_namespaces(held)}
    roles = {(obj.kind, obj.namespace, obj.name): obj for obj in held if obj.group == _RIGHTS}
    for binding in held if teams else ():
        if binding.group != _RIGHTS or binding.kind not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        for index, subject in entries(binding.data.get("subjects")):
            team = _team_of(subject, teams)
            gitops = (subject.get("kind"), subject.get("name")) == ("ServiceAccount", "gitops")
            others = binding.kind == "ClusterRoleBinding" or binding.namespace in {*teams, *_OF_GITOPS} - {team}
            if team is None or not (gitops or others):
                continue
            who = (
                f"{text(subject.get('kind'))} {text(subject.get('name'))}{f' of team {team}' if team in teams else ''}"
            )
            for what, spot in _too_much(binding, team, roles):
                yield Problem(
                    f"{who} may {what}",
                    spot,
                    (binding.at("subjects", index, label="bound here"),),
                    "name the kinds and verbs that the jobs of the team need, in its namespace",
                )


@rule("GIT024", "policy-not-enforced", Severity.ERROR, needs=Unit, guarded=True)
def policy_not_enforced(unit: Unit) -> Iterator[Problem]:
    """A cluster holds base/policy, but one of its policies on security is missing, altered, or only warns.

    Lint judges what is merged; these policies judge what reaches the cluster, by whatever way. Where one is missing,
    nothing stops what lint was not asked about. A cluster without any policy of base/policy is left alone.

    Bad:
        $platform: true
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {name: sec005.trainyard.dev}
        spec: {failurePolicy: Ignore, validations: [{expression: "true"}]}
    Good:
        $platform: true
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {name: images.example.com}
        spec: {failurePolicy: Ignore, validations: [{expression: "true"}]}
    Near miss:
        $platform: true
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: sec005.trainyard.dev, namespace: research}

    Source: base/policy/
    """
    held = _held(unit)
    found = {(obj.kind, obj.name): obj for obj in held if obj.group == "admissionregistration.k8s.io"}
    if not any(title in found for title in _exported()):
        return
    first = next(found[title] for title in _exported() if title in found)
    for (kind, name), wanted in _exported().items():
        obj = found.get((kind, name))
        policy = wanted["spec"].get("policyName", name)
        if policy not in _guarded() or (obj is not None and obj.data.get("spec") == wanted.get("spec")):
            continue
        if obj is None and (_POLICY, policy) not in found and kind != _POLICY:
            continue  # without its policy a binding is nothing
        said = f"lacks {kind} {name}" if obj is None else f"has {kind} {name} otherwise than base/policy"
        rule_id = policy.partition(".")[0].upper()
        yield Problem(
            f"the platform {said}: what {rule_id} refuses reaches the cluster",
            (first if obj is None else obj).at("spec"),
            help="write base/policy with tools/update-docs, and keep it among the platform's resources",
        )


def _held(unit: Unit) -> tuple[Object, ...]:
    """What a platform holds: that of the unit's cluster, and the unit itself where it makes namespaces."""
    return unit.objects if unit.platform is None and not unit.is_job else unit.platform or ()


def _team_namespaces(held: Sequence[Object]) -> list[Object]:
    return [obj for obj in held if (obj.group, obj.kind) == ("", "Namespace") and label(obj, _TEAM)]


def _denies_all(obj: Object) -> bool:
    if (obj.group, obj.kind) != ("networking.k8s.io", "NetworkPolicy"):
        return False
    spec = mapping(obj.data.get("spec"))
    types = set(map(str, sequence(spec.get("policyTypes"))))
    return (
        spec.get("podSelector") == {}
        and types == {"Ingress", "Egress"}
        and not spec.get("ingress")
        and not spec.get("egress")
    )


def _level(written: object) -> int:
    """How lax a Pod Security level is; none at all is the laxest."""
    return _LEVELS.index(written) if isinstance(written, str) and written in _LEVELS else len(_LEVELS) - 1


def _team_of(subject: Any, teams: set[str]) -> str | None:
    """The team that a subject of a binding belongs to; empty for everybody, None where it is somebody else."""
    name, space = text(subject.get("name")), text(subject.get("namespace"))
    if subject.get("kind") == "ServiceAccount":
        return space if space in teams else None
    own = name.removeprefix("system:serviceaccounts:")
    if own in teams:
        return own
    return "" if name in _EVERYBODY else None


def _too_much(binding: Object, team: str, roles: dict[tuple[str, str, str], Object]) -> Iterator[tuple[str, Spot]]:
    """What a binding allows its subject beyond what a team needs, and where that is written."""
    reference = strings(binding.data.get("roleRef"))
    kind, name = reference.get("kind", ""), reference.get("name", "")
    inside = binding.kind == "RoleBinding" and binding.namespace == team
    if kind == "ClusterRole" and name in _BUILT_IN:
        yield f"do all that ClusterRole {name} allows", binding.at("roleRef", "name")
        return
    role = roles.get((kind, binding.namespace if kind == "Role" else "", name))
    if role is None:
        return
    for index, allowed in entries(role.data.get("rules")):
        verbs = set(map(str, sequence(allowed.get("verbs"))))
        groups = list(map(str, sequence(allowed.get("apiGroups"))))
        resources = list(map(str, sequence(allowed.get("resources"))))
        pairs = [(group, resource) for group in groups for resource in resources]
        if inside:
            more = [resource for pair in pairs if pair not in _of_a_job() for resource in (pair[1] or "*",)]
            beyond = sorted(verbs - _WRITES)
        else:
            more = resources if verbs - _READS else [each for each in resources if each in ("*", "secrets")]
            beyond = []
        if more or beyond:
            doing = "do anything with" if "*" in verbs else ", ".join(sorted(verbs if more else beyond))
            what = "every kind of object" if "*" in more else ", ".join(dict.fromkeys(more or resources))
            yield f"{doing} {what}", role.at("rules", index)


@cache
def _of_a_job() -> frozenset[tuple[str, str]]:
    """API groups and resources of what a job folder may hold."""
    return frozenset((group, plural(kind)) for group, kinds in groups(statement()).items() for kind in kinds)


@cache
def _exported() -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of base/policy as this linter writes them, by kind and name."""
    rules = all_rules()
    made = [data for policy in POLICIES for data in objects(policy, rules[policy.rule])]
    return {(data["kind"], data["metadata"]["name"]): data for data in made}


@cache
def _guarded() -> frozenset[str]:
    """Names of the policies whose rules only the platform team may silence."""
    rules = all_rules()
    return frozenset(policy.name for policy in POLICIES if rules[policy.rule].guarded)
