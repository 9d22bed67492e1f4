"""What a policy is, and the objects that it becomes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.allowed import team
from trainyard.docs.pages import first_line
from trainyard.findings.finding import Severity
from trainyard.policy.kinds import Kind
from trainyard.rules.registry import Rule

TEAM_LABEL = "trainyard.dev/team"
"""Namespaces with this label are judged: those that base/team makes."""

_SHARED = {
    "spec": "object.?spec.orValue({})",
    "pods": "variables.templates.map(t, t.?spec.orValue({}))",
    "containers": "variables.pods.map(p, p.?containers.orValue([]))",
    "everyContainer": "variables.pods.map(p, p.?initContainers.orValue([]) + p.?containers.orValue([]))",
    "annotations": "variables.templates.map(t, t.?metadata.?annotations.orValue({}))",
    "settings": (
        "object.kind == 'ConfigMap' ? [[object.?data.orValue({}).map(k, {'name': k, 'value': object.data[k]})]] : "
        "variables.everyContainer.map(p, p.map(c, c.?env.orValue([]).filter(e, has(e.value))))"
    ),
}
"""Variables by name. They may use one another."""
_OF_ACCOUNTS = """\
object.kind == 'Pod'
|| request.userInfo.?groups.orValue([]).exists(g, g == 'system:serviceaccounts:' + request.namespace)"""
_USED = re.compile(r"\bvariables\.(\w+)")


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule in CEL. Its expressions may use `variables.spec`, `.templates`, `.pods`, `.containers` (a list a pod),
    `.everyContainer` (init containers too), `.annotations` (of pod templates), and `.settings`: a list a pod of a list
    a container of its variables, each with `name` and `value`; for a ConfigMap those that it holds.
    """

    rule: str
    """Its id."""
    kinds: tuple[Kind, ...]
    allowed: str
    """CEL: true of objects about which the rule says nothing, as far as the object alone tells."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """Further variables, by name."""
    of_owners: bool = False
    """True where objects that a controller makes for another object are judged too. Else they were judged with their
    owner, and are let through: a job whose parts are refused later waits for ever."""
    exempt: Mapping[str, str] = field(default_factory=dict)
    """Names to CEL that is false of objects that the rule exempts."""
    says: str = ""
    """CEL for what is wrong with an object, where the first line of the rule does not say it."""
    with_team: bool = False
    """True where it depends on the namespace's Team, as `params`. Without one no pod is let in."""
    of_accounts: bool = False
    """True where objects are judged that a ServiceAccount of the namespace applies, which are those of its jobs, and no
    others but pods."""
    operations: tuple[str, ...] = ("CREATE",)
    """By default what is created alone is judged: an update may be that of a controller."""

    @property
    def name(self) -> str:
        """That of the policy and of its binding, which are of the cluster."""
        return f"{self.rule.lower()}.trainyard.dev"


def objects(policy: Policy, rule: Rule) -> tuple[dict[str, Any], ...]:
    """The ValidatingAdmissionPolicy and its bindings. An error is denied, a warning is shown and audited."""
    denies = rule.severity is Severity.ERROR
    conditions = {} if policy.of_owners else {"not-made-by-a-controller": "!has(object.metadata.ownerReferences)"}
    if policy.of_accounts:
        conditions["pod-or-by-an-account-of-the-namespace"] = _OF_ACCOUNTS
    name, see = f"{rule.id} {rule.name}: ", f" See tools/lint-jobs explain {rule.id}"
    validation = {"expression": policy.allowed, "message": f"{name}{first_line(rule)}{see}"}
    if policy.says:
        validation["messageExpression"] = f"'{name}' + {policy.says} + '.{see}'"
    spec = {
        "failurePolicy": "Fail" if denies else "Ignore",
        "paramKind": {"apiVersion": team.API_VERSION, "kind": team.KIND} if policy.with_team else None,
        "matchConstraints": {"resourceRules": _matched(policy.kinds, policy.operations)},
        "matchConditions": _named(conditions | dict(policy.exempt)),
        "variables": _named(_variables(policy)),
        "validations": [validation],
    }
    kept = {key: value for key, value in spec.items() if value}
    actions = ["Deny"] if denies else ["Warn", "Audit"]
    bound = (_binding(policy, *binding, actions) for binding in _bindings(policy))
    return _object("ValidatingAdmissionPolicy", policy.name, kept), *bound


def _bindings(policy: Policy) -> list[tuple[str, str, tuple[Kind, ...]]]:
    """Name of each binding, what becomes of objects in a namespace without its Team, and the kinds, none for all.

    That they are denied is said of whoever makes them, the platform too, which makes a Team with all else of a team at
    once. So it is said of pods and of what becomes pods, and nothing runs before there is a Team.
    """
    if not policy.with_team:
        return [(policy.name, "", ())]
    if not policy.of_accounts:
        return [(policy.name, "Deny", ())]
    pods = tuple(kind for kind in policy.kinds if kind.name == "Pod")
    if not pods:
        return [(policy.name, "Allow", ())]
    others = tuple(kind for kind in policy.kinds if kind.name != "Pod")
    return [(policy.name, "Allow", others), (policy.name.replace(".", "-pods.", 1), "Deny", pods)]


def _binding(
    policy: Policy, name: str, without_team: str, kinds: tuple[Kind, ...], actions: list[str]
) -> dict[str, Any]:
    in_teams = {"namespaceSelector": {"matchExpressions": [{"key": TEAM_LABEL, "operator": "Exists"}]}}
    narrowed = {"resourceRules": _matched(kinds, policy.operations)} if kinds else {}
    spec: dict[str, Any] = {
        "policyName": policy.name,
        "validationActions": actions,
        "matchResources": in_teams | narrowed,
    }
    if without_team:
        spec["paramRef"] = {"name": team.NAME, "parameterNotFoundAction": without_team}
    return _object("ValidatingAdmissionPolicyBinding", name, spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _matched(kinds: Iterable[Kind], operations: Iterable[str]) -> list[dict[str, Any]]:
    """One entry a group and version."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        found.setdefault((kind.group, kind.version), []).append(kind.plural)
    return [
        {"apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": sorted(resources)}
        for (group, version), resources in sorted(found.items())
    ]


def _variables(policy: Policy) -> dict[str, str]:
    """Those that the policy uses, each before its first use."""
    known = {"templates": _templates(policy.kinds), **_SHARED, **policy.constants}
    found: dict[str, str] = {}

    def add(expression: str) -> None:
        for name in _USED.findall(expression):
            if name not in found:
                add(known[name])
                found[name] = known[name]

    add(policy.allowed)
    add(policy.says)
    return found


def _templates(kinds: Iterable[Kind]) -> str:
    choices = "".join(
        f"object.kind == '{kind.name}' ? {kind.templates} :\n" for kind in kinds if kind.templates != "[]"
    )
    return f"{choices}[]"


def _named(expressions: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]
