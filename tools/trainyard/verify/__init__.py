"""What a real API server says of rendered jobs: a server-side dry run of every object, and of their pods."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.cluster import on_platform
from trainyard.controlplane.client import Client, Refused, User
from trainyard.discover import Discovery, Target, TargetKind, has_kustomization
from trainyard.errors import InputError
from trainyard.finding import Finding
from trainyard.objects import Object
from trainyard.origin import Origin
from trainyard.outcome import Judgement, Outcome, conclude
from trainyard.pipeline import finding_of, input_finding
from trainyard.rules.registry import Problem, Rule
from trainyard.rules.server import REJECTS, WARNS
from trainyard.sources import Sources
from trainyard.suppress import find
from trainyard.unit import Unit
from trainyard.verify.answers import POD_SECURITY, problems, warned

if TYPE_CHECKING:
    from trainyard.controlplane import Plane

TEAM_ACCOUNT = "gitops"
"""The ServiceAccount of a team's namespace as which Argo CD and Flux apply its jobs; base/team makes it."""
ANYWHERE = ""
"""The cluster of what names none: a server without platform objects."""
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_LATER = {"CustomResourceDefinition": 0, "Namespace": 1}

Progress = Callable[[str], None]


@dataclass(slots=True)
class _Made:
    """A target's objects, or why there are none."""

    target: Target
    findings: list[Finding] = field(default_factory=list)
    unit: Unit | None = None
    origin: Origin | None = None

    def add(self, rule: Rule, problem: Problem) -> None:
        assert self.origin is not None
        self.findings.append(finding_of(rule, problem, self.origin, self.target.name))

    def land_on(self, platform: "_Made") -> None:
        """Let the target's workloads see what the cluster holds."""
        if self.unit is not None and self.origin is not None and platform.unit and platform.origin:
            self.unit, self.origin = on_platform(self.unit, self.origin, platform.unit.objects, platform.origin)

    def judgement(self, sources: Sources) -> Judgement:
        """What the server said of it. Not every rule was asked, so it is not complete."""
        files = {finding.place.position.file for finding in self.findings if finding.place.position}
        suppressions = [each for file in sorted(files & sources.files) for each in find(file, sources.text(file))]
        return Judgement(self.target, tuple(self.findings), tuple(suppressions), complete=False)

    @property
    def account(self) -> User | None:
        """Whom the target is applied as; None where no object of it has a namespace."""
        names = [item.namespace for item in self.unit.objects if item.namespace] if self.unit is not None else []
        return gitops(names[0]) if names else None

    @property
    def cluster(self) -> str:
        """The cluster that a job lands on."""
        fact = self.unit.fact("Cluster") if self.unit is not None else None
        return fact.name if fact is not None and _CLUSTER_NAME.match(fact.name) else ANYWHERE


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
    progress: Progress | None = None,
) -> Outcome:
    """What the API server refuses or warns of, and input that cannot be judged.

    Without a client, a control plane of its own is started for each cluster that a job lands on, and gets what is in
    clusters/<name>/platform, where jobs are applied as their team's account. With one, that server is asked as
    `as_user`, or `as_team` as each team's account, and nothing on it changes.
    """
    say = progress or (lambda _: None)
    made = _rendered(root, found.targets, sources)
    try:
        if client is not None:
            for each in made:
                user = each.account if as_team else as_user
                say(f"asking {client.server} about {each.target.name}")
                _dry_run(client.acting_as(user) if user is not None else client, each)
        else:
            for cluster in sorted({each.cluster for each in made if each.unit is not None}):
                made += _on_own_server(root, cluster, [each for each in made if each.cluster == cluster], sources, say)
    finally:
        say("")
    unread = [input_finding(error, error.file) for error in found.errors]
    return conclude(sources, unread, [each.judgement(sources) for each in made], whole=False)


def _on_own_server(root: Path, cluster: str, jobs: list[_Made], sources: Sources, say: Progress) -> list[_Made]:
    """Judge what lands on one cluster. Gives its platform too, where something is wrong with that."""
    from trainyard.controlplane import running
    from trainyard.controlplane.definitions import load_definitions
    from trainyard.verify.pods import refusals

    say(f"starting a control plane{f' for {cluster}' if cluster else ''}")
    with ExitStack() as stack:
        plane: Plane = stack.enter_context(running())
        admin = plane.client()
        stack.callback(admin.close)
        folder = f"clusters/{cluster}/platform"
        platform: list[_Made] = []
        if cluster and has_kustomization(root / folder):
            platform = _rendered(root, [Target(folder, TargetKind.KUSTOMIZATION)], sources)
        load_definitions(admin, _kinds([*platform, *jobs]))
        if platform:
            _apply(admin, platform[0])
        else:
            _make_namespaces(admin, jobs)
        for job in jobs if platform else ():
            job.land_on(platform[0])
        for job in jobs:
            if job.unit is None:
                continue
            say(f"asking the API server about {job.target.name}")
            account = job.account if platform else None
            asked = admin.acting_as(account) if account is not None else admin
            stack.callback(asked.close)
            _dry_run(asked, job)
            if any(finding.rule == REJECTS.id for finding in job.findings):
                continue
            for problem in refusals(admin, job.unit):
                job.add(REJECTS, problem)
            job.findings = _told_once(job.findings)
        return [each for each in platform if each.findings]


def _rendered(root: Path, targets: Sequence[Target], sources: Sources) -> list[_Made]:
    from trainyard.manifests import read_manifests
    from trainyard.render import render
    from trainyard.rendered import Prepared

    made = [_Made(target) for target in targets]
    ready: list[tuple[_Made, Prepared]] = []
    for each in made:
        try:
            if each.target.kind is TargetKind.MANIFESTS:
                each.unit, each.origin = read_manifests(each.target.name, each.target.files, sources)
                continue
            prepared = Prepared(sources, each.target)
            each.findings += prepared.findings
            if prepared.may_render:
                ready.append((each, prepared))
        except InputError as error:
            each.findings.append(input_finding(error, each.target.name))
    renderings = render(root, [each.target.name for each, _ in ready])
    for (each, prepared), rendering in zip(ready, renderings, strict=True):
        try:
            each.unit, each.origin = prepared.unit(rendering)
        except InputError as error:
            each.findings.append(input_finding(error, each.target.name))
    return made


def _dry_run(client: Client, made: _Made) -> None:
    """Apply every object of a unit without storing it."""
    if made.unit is None:
        return
    for item in made.unit.objects:
        for rule, problem in _answers(client, item, dry_run=True):
            made.add(rule, problem)


def _apply(admin: Client, made: _Made) -> None:
    """Apply what a cluster holds before its jobs come, in an order in which it can be."""
    if made.unit is None:
        return
    for item in sorted(made.unit.objects, key=lambda item: _LATER.get(item.kind, len(_LATER))):
        for rule, problem in _answers(admin, item, dry_run=False):
            made.add(rule, problem)


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


def _kinds(made: Sequence[_Made]) -> set[tuple[str, str]]:
    return {(item.api_version, item.kind) for each in made if each.unit is not None for item in each.unit.objects}


def _make_namespaces(admin: Client, jobs: Sequence[_Made]) -> None:
    names = {item.namespace for job in jobs if job.unit is not None for item in job.unit.objects}
    for name in sorted(names - {"", "default"}):
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": name, "name": "default"}})
