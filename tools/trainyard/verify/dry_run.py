"""What a real API server says of rendered jobs: a server-side dry run of every object, and of their pods."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trainyard.commandline import Progress
from trainyard.controlplane import running
from trainyard.controlplane.client import Client, Refused, User
from trainyard.controlplane.controllers import WEBHOOKS_OF, controller
from trainyard.controlplane.definitions import load_definitions
from trainyard.findings.finding import Finding
from trainyard.gitops.cluster import on_platform
from trainyard.lint.outcome import Outcome, conclude
from trainyard.lint.result import input_finding
from trainyard.objects.objects import Object
from trainyard.objects.origin import Origin
from trainyard.objects.unit import Unit
from trainyard.repository.discover import Discovery, Target, TargetKind, has_kustomization
from trainyard.rules.aliases import present
from trainyard.rules.index import all_rules
from trainyard.rules.index import problems as rule_problems
from trainyard.rules.registry import Problem, Rule
from trainyard.rules.server import REJECTS, WARNS
from trainyard.verify.answers import POD_SECURITY, problems, warned
from trainyard.verify.candidates import Candidate, Shelf
from trainyard.verify.pods import refusals
from trainyard.workload.of_unit import workloads
from trainyard.workload.plain import entries, mapping
from trainyard.yaml.sources import Sources

TEAM_ACCOUNT = "gitops"
"""The ServiceAccount of a team's namespace as which Argo CD and Flux apply its jobs; base/team makes it."""
_FLUX = "kustomize.toolkit.fluxcd.io"
_LATER = {"CustomResourceDefinition": 0, "Namespace": 1}


def gitops(namespace: str) -> User:
    """Whom a team's jobs are applied as."""
    return User.service_account(namespace, TEAM_ACCOUNT)


def verify(
    root: Path,
    found: Discovery,
    sources: Sources,
    *,
    client: Client | None = None,
    as_user: User | None = None,
    as_team: bool = False,
    webhooks: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """What the API server refuses or warns of, and input that cannot be judged.

    Without a client, a control plane of its own is started for each cluster that a job lands on, and gets what is in
    clusters/<name>/platform, where jobs are applied as their team's account; with `webhooks`, the operators that run
    the jobs are started there too, and their admission webhooks asked. With one, that server is asked as
    `as_user`, or `as_team` as each team's account, and nothing on it changes.
    """
    say = progress or (lambda _: None)
    try:
        with tempfile.TemporaryFile() as file:
            shelf = Shelf(root, sources, file)
            made = shelf.put(found.targets, say)
            if client is not None:
                _on_your_server(client, made, shelf, as_user, as_team, say)
            else:
                for cluster in sorted({each.cluster for each in made if each.place is not None}):
                    jobs = [each for each in made if each.cluster == cluster]
                    made += _on_own_server(root, cluster, jobs, shelf, say, webhooks)
    finally:
        say("")
    unread = [input_finding(error, error.file) for error in found.errors]
    return conclude(sources, unread, [each.judgement(sources) for each in made], whole=False)


def _on_your_server(
    client: Client, jobs: Sequence[Candidate], shelf: Shelf, as_user: User | None, as_team: bool, say: Progress
) -> None:
    """Judge jobs by a server that is there already, and change nothing on it."""
    for job, unit, origin in shelf.taken(jobs):
        say(f"asking {client.server} about {job.target.name}")
        user = _account(unit) if as_team else as_user
        job.add(_dry_run(client.acting_as(user) if user is not None else client, unit), origin)


def _on_own_server(
    root: Path, cluster: str, jobs: Sequence[Candidate], shelf: Shelf, say: Progress, webhooks: bool
) -> list[Candidate]:
    """Judge what lands on one cluster. Gives its platform too, where something is wrong with that."""
    say(f"starting a control plane{f' for {cluster}' if cluster else ''}")
    folder = f"clusters/{cluster}/platform"
    has_platform = bool(cluster) and has_kustomization(root / folder)
    operators = _operators(jobs) if webhooks else []
    with running(watched=bool(operators)) as plane, closing(plane.client()) as admin, ExitStack() as running_there:
        for name in operators:
            say(f"starting {name}")
            running_there.enter_context(controller(name, plane))
        platform = shelf.put([Target(folder, TargetKind.KUSTOMIZATION)] if has_platform else [], say)
        load_definitions(admin, {kind for each in (*platform, *jobs) for kind in each.kinds})
        below: tuple[Unit, Origin] | None = None
        for made, held, written in shelf.taken(platform):
            made.add(_apply(admin, held), written)
            below = held, written
        namespaces: set[str] = set()
        for job, unit, origin in shelf.taken(jobs):
            say(f"asking the API server about {job.target.name}")
            if below is not None:
                unit, origin = on_platform(unit, origin, below[0].objects, below[1])
            if not has_platform:
                _make_namespaces(admin, unit, namespaces)
            account = _account(unit) if has_platform else None
            job.add(_dry_run(admin.acting_as(account) if account is not None else admin, unit), origin)
            if any(finding.rule == REJECTS.id for finding in job.findings):
                continue
            job.add(((REJECTS, problem) for problem in refusals(admin, unit)), origin)
            job.findings = _told_once(job.findings)
        return [each for each in platform if each.findings]


def _operators(jobs: Sequence[Candidate]) -> list[str]:
    """Whose admission webhooks a cluster would ask about these jobs, in the order in which they start."""
    kinds = {(version.rpartition("/")[0], kind) for job in jobs for version, kind in job.kinds}
    found = [name for kind in sorted(kinds) for name in WEBHOOKS_OF.get(kind, ())]
    return list(dict.fromkeys([*found, *(["kueue"] if any(job.is_queued for job in jobs) else [])]))


_SENTINEL = "trainyard-verify-policies"
_POLICY = re.compile(r"ValidatingAdmissionPolicy '(\w+)\.trainyard\.dev'")


def _account(unit: Unit) -> User | None:
    """Whom a job is applied as; None where no object of it has a namespace."""
    return next((gitops(item.namespace) for item in unit.objects if item.namespace), None)


def _dry_run(client: Client, unit: Unit) -> Iterator[tuple[Rule, Problem]]:
    """Apply every object of a unit without storing it; those of a job as Flux would, which marks them with its name."""
    job = unit.fact("TrainingJob")
    for item in unit.objects:
        marked = item if job is None else replace(item, data=_marked(item.data, job))
        for rule, problem in _answers(client, marked, dry_run=True):
            yield rule, _where_the_rule_says(problem, item, unit)


def _where_the_rule_says(problem: Problem, item: Object, unit: Unit) -> Problem:
    """A policy of base/policy refuses an object and names no field, which the rule does that it is written from."""
    policy = _POLICY.search(problem.message)
    rule = all_rules().get(present(policy[1].upper())) if policy else None
    if rule is None:
        return problem
    found = (each.spot for each in rule_problems(rule, unit, tuple(workloads(unit))))
    spots = [spot for spot in found if spot.object.index == item.index]
    return replace(problem, spot=spots[0], related=tuple(spots[1:])) if spots else problem


def _marked(data: dict[str, Any], job: Object) -> dict[str, Any]:
    labels = {f"{_FLUX}/name": job.name, f"{_FLUX}/namespace": job.namespace}
    metadata = mapping(data.get("metadata"))
    return {**data, "metadata": {**metadata, "labels": {**mapping(metadata.get("labels")), **labels}}}


def _apply(admin: Client, platform: Unit) -> Iterator[tuple[Rule, Problem]]:
    """Apply what a cluster holds before its jobs come, in an order in which it can be."""
    for item in sorted(platform.objects, key=lambda item: _LATER.get(item.kind, len(_LATER))):
        yield from _answers(admin, item, dry_run=False)
        if item.kind == "CustomResourceDefinition":
            wait_for(admin, item)
    if any(item.kind == "ValidatingAdmissionPolicyBinding" for item in platform.objects):
        _wait_for_policies(admin)


def _wait_for_policies(admin: Client) -> None:
    """Wait until admission policies that were made before are in force, which the API server says nowhere.

    It takes up all that there are together, so one made after them that refuses an object of one name tells.
    """
    named = {"metadata": {"name": _SENTINEL}}
    group = {"apiVersion": "admissionregistration.k8s.io/v1", **named}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
    admin.apply(
        {
            **group,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "matchConstraints": {"resourceRules": [{**rule, "resourceNames": [_SENTINEL]}]},
                "validations": [{"expression": "false"}],
            },
        }
    )
    binding = {"policyName": _SENTINEL, "validationActions": ["Deny"]}
    admin.apply({**group, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})

    def is_refused() -> bool:
        try:
            admin.apply({"apiVersion": "v1", "kind": "Namespace", **named}, dry_run=True)
        except Refused:
            return True
        return False

    admin.until("the admission policies", is_refused)


def wait_for(admin: Client, definition: Object) -> None:
    """Wait until what a CustomResourceDefinition defines is served."""
    spec = mapping(definition.data.get("spec"))
    kind = mapping(spec.get("names")).get("kind")
    for _, version in entries(spec.get("versions")):
        if version.get("served") is True:
            api_version = f"{spec.get('group')}/{version.get('name')}"
            admin.until(f"{kind} of {api_version}", partial(admin.serves, api_version, str(kind)))


def _answers(client: Client, item: Object, *, dry_run: bool) -> Iterator[tuple[Rule, Problem]]:
    try:
        answer = client.apply(item.data, dry_run=dry_run)
    except Refused as refused:
        for problem in problems(item, refused):
            yield REJECTS, problem
        return
    for text in answer.warnings:
        yield WARNS, warned(item, text)


def _told_once(findings: list[Finding]) -> list[Finding]:
    """Without the warning that pods will be refused where they were."""
    if not any(POD_SECURITY in finding.message for finding in findings if finding.rule == REJECTS.id):
        return findings
    return [finding for finding in findings if finding.rule != WARNS.id or POD_SECURITY not in finding.message]


def _make_namespaces(admin: Client, unit: Unit, made: set[str]) -> None:
    """Make the namespaces of a unit, but for those that are made."""
    names = {item.namespace or "default" for item in unit.objects} - made
    for name in sorted(names):
        if name != "default":  # the API server makes that itself, and no controller runs here that makes its account
            admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": name, "name": "default"}})
    made |= names
