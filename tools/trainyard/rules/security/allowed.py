"""What a job folder may hold, field by field: schemas/job-folder.yaml, and what the team's Team adds to it."""

import json
from collections.abc import Iterator
from typing import Any

from trainyard.allowed.statement import (
    ACCOUNT_RULE,
    FIELD_RULE,
    NODE_RULE,
    THERE_RULE,
    VALUE_RULE,
    Limit,
    Values,
    statement,
)
from trainyard.allowed.statement_limits import LIMITS
from trainyard.allowed.team import Context, context_of
from trainyard.allowed.walk import Refusal, refusals
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put, remove
from trainyard.objects.unit import Unit
from trainyard.rules.registry import Problem, rule
from trainyard.rules.security.images import images_from_elsewhere
from trainyard.yaml.fieldpath import format_path

_BY_KUBERNETES = (("ConfigMap", "kube-root-ca.crt"),)
"""What Kubernetes itself makes in every namespace, beside a ServiceAccount, of which ACCOUNT_RULE speaks."""
_SHOWN = 60


@rule(NODE_RULE, "takes-over-the-node", Severity.ERROR, needs=Unit, fix="safe", guarded=True)
def takes_over_the_node(unit: Unit) -> Iterator[Problem]:
    """A job folder asks for rights with which a pod can take over its node.

    Root, a privileged container, a folder or a port of the host, its network or its processes, a profile that lets
    every call through: with each of them a pod reaches what belongs to others on its node. What remains is a list of
    what is allowed, `PodSecurityContext`, `SecurityContext` and `Volume` in schemas/job-folder.yaml, and the platform
    team adds to it for a team in clusters/<name>/platform/<team>/team.yaml. Clusters ask the same of every pod that is
    made in a team's namespace.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, securityContext: {privileged: true, allowPrivilegeEscalation: true}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {capabilities: {add: [IPC_LOCK]}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
        ---
        $platform: true
        apiVersion: trainyard.dev/v1alpha1
        kind: Team
        metadata: {name: team, namespace: research}
        spec: {images: [registry.example.com/], largestClaim: 5Ti, fields: [Pod.hostNetwork]}

    Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    yield from _said_by(NODE_RULE, unit)


@rule(FIELD_RULE, "field-not-allowed", Severity.ERROR, needs=Unit, fix="unsafe", guarded=True)
def field_not_allowed(unit: Unit) -> Iterator[Problem]:
    """A job folder sets a field that jobs of its team may not set, or leaves one out that they must set.

    What a job folder may hold is a list of what is allowed, schemas/job-folder.yaml, not one of what is forbidden: a
    field that nobody thought of is refused until somebody did. The platform team adds a field for one team on one
    cluster under `fields` of clusters/<name>/platform/<team>/team.yaml.

    Bad:
        kind: Job
        spec: {template: {spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [registry.example.com]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {dnsConfig: {options: [{name: ndots, value: "2"}]}}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {runtimeClassName: nvidia}}}
        ---
        $platform: true
        apiVersion: trainyard.dev/v1alpha1
        kind: Team
        metadata: {name: team, namespace: research}
        spec: {images: [registry.example.com/], largestClaim: 5Ti, fields: [Pod.runtimeClassName]}

    Source: schemas/job-folder.yaml
    """
    yield from _said_by(FIELD_RULE, unit)


@rule(VALUE_RULE, "value-not-allowed", Severity.ERROR, needs=Unit, fix="safe", guarded=True)
def value_not_allowed(unit: Unit) -> Iterator[Problem]:
    """A job folder sets a field to a value that jobs of its team may not set.

    Images, secrets, storage, addresses and names that are not the team's or the run's own give access to what belongs
    to others. clusters/<name>/platform/<team>/team.yaml lists the values that a team may use on a cluster. Where that
    file is not known, values that depend on it are not judged. In a repository of another layout, where trainyard.yaml
    says from where `images` may come, it is the rule of every object with another image.

    Bad:
        kind: Service
        spec: {type: LoadBalancer}
    Good:
        kind: Service
        spec: {type: ClusterIP}
    Near miss:
        kind: Job
        spec: {template: {spec: {schedulerName: volcano}}}

    Source: schemas/job-folder.yaml
    """
    yield from _said_by(VALUE_RULE, unit)
    if unit.images:
        yield from images_from_elsewhere(unit)


@rule(ACCOUNT_RULE, "not-its-own-account", Severity.ERROR, needs=Unit, fix="safe", guarded=True)
def not_its_own_account(unit: Unit) -> Iterator[Problem]:
    """The pods of a job run as another ServiceAccount than the run's own, or with a token of the API server.

    Training asks nothing of the API server. A pod with the token of an account that may do something, such as the one
    that syncs the team's jobs, does all that without a pull request. So a run has an account of its own, which is
    called like it and has no token, and no job may be called like an account of the platform.

    Bad:
        kind: Job
        spec: {template: {spec: {serviceAccountName: gitops, automountServiceAccountToken: true}}}
    Good:
        kind: Job
        spec: {template: {spec: {serviceAccountName: llama-sft}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {automountServiceAccountToken: null}}}

    Source: https://kubernetes.io/docs/concepts/security/rbac-good-practices/
    """
    yield from _said_by(ACCOUNT_RULE, unit)


@rule(THERE_RULE, "changes-what-is-there", Severity.ERROR, needs=Unit, guarded=True)
def changes_what_is_there(unit: Unit) -> Iterator[Problem]:
    """A job folder brings an object that the platform of its cluster, or Kubernetes itself, has already made.

    Argo CD and Flux would lay the one over the other: the team's NetworkPolicy, its datasets or its certificates would
    be what a job says. A run is created once, so clusters refuse whatever a team's account wants to change.

    Bad:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: kube-root-ca.crt, namespace: research}
        data: {ca.crt: ours}
    Good:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: our-ca, namespace: research}
        data: {ca.crt: ours}
    Near miss:
        kind: Job
        spec: {template: {spec: {volumes: [{name: ca, configMap: {name: kube-root-ca.crt}}]}}}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """
    if not unit.is_job:
        return
    there = {(each.kind, each.namespace, each.name): each for each in unit.platform or ()}
    for obj in unit.objects:
        if obj.kind == "ServiceAccount" or (obj.api_version, obj.kind) not in statement().kinds:
            continue
        owner = there.get((obj.kind, obj.namespace, obj.name))
        if owner is None and (obj.kind, obj.name) not in _BY_KUBERNETES:
            continue
        where = (owner.at("metadata", "name", label="is made here"),) if owner is not None else ()
        whose = "the platform of the cluster" if owner is not None else "Kubernetes"
        yield Problem(
            f"{whose} has a {obj.kind} {obj.name} in namespace {obj.namespace} already",
            obj.at("metadata", "name"),
            where,
            "give the object a name of its own, which begins with that of the run",
        )


def _said_by(rule_id: str, unit: Unit) -> Iterator[Problem]:
    if not unit.is_job:
        return
    context, refused = _judged(unit)
    said = statement()
    for obj, found in refused:
        if said.rule(found.name, is_value=found.is_value) == rule_id:
            yield _problem(obj, found, context)


Judged = tuple[Context, list[tuple[Object, Refusal]]]
_last: list[tuple[Unit, Judged]] = []
"""What was refused of the unit that was judged last: four rules ask for it, one after the other."""


def _judged(unit: Unit) -> Judged:
    if not _last or _last[0][0] is not unit:
        context, kinds = context_of(unit), statement().kinds
        known = ((obj, kinds.get((obj.api_version, obj.kind))) for obj in unit.objects)
        refused = [(obj, found) for obj, kind in known if kind for found in refusals(kind, obj.data, context)]
        _last[:] = [(unit, (context, refused))]
    return _last[0][1]


def _problem(obj: Object, found: Refusal, context: Context) -> Problem:
    spot, field = obj.at(*found.path), format_path(obj.data, found.path)
    if found.is_unknown:
        message = f"{field} is not allowed in a job{context.whose}"
        named = Spot(obj, found.path, at_key=True)
        return Problem(message, named, help=f"leave it out, or {_ask(found, context)}", fix=remove(spot).unsafe())
    if isinstance(found.node, Limit) and not found.is_missing:
        return _limited(found.node.limit, found.value, spot, context)
    only = found.node.values if isinstance(found.node, Values) else ()
    choice = f"{'one of ' if len(only) > 1 else ''}{', '.join(map(_shown, only))}"
    fix = put(spot, only[0]) if len(only) == 1 else None
    if found.is_missing:
        must = f" and is {choice}" if only else ""
        return Problem(f"{field} is missing: every job{context.whose} has it{must}", spot, help="write it", fix=fix)
    message = f"{field} is {_shown(found.value)}, but in a job{context.whose} it may be {choice} only"
    return Problem(message, spot, help=f"leave it out, or {_ask(found, context)}", fix=fix)


def _limited(limit: str, value: Any, spot: Spot, context: Context) -> Problem:
    field = format_path(spot.object.data, spot.path)
    words, allowed = statement().limits[limit], LIMITS[limit].allowed(context)
    listed = f" ({', '.join(filter(None, allowed))})" if any(allowed) else ""
    help = f"the platform team adds to `{words.more}` in {context.file}" if words.more else "correct it"
    if value is None:
        return Problem(f"{field} is missing: what the team has{listed} must be there", spot, help=help)
    return Problem(f"{field} is {_shown(value)}, which {words.says}{listed}", spot, help=help)


def _ask(found: Refusal, context: Context) -> str:
    return f"ask the platform team for {found.name} under `fields` in {context.file}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
