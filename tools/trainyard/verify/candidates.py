"""Rendered targets, whose objects wait in a file until a server is asked about them: one is in memory at a time."""

import os
import pickle
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trainyard.commandline import Progress
from trainyard.errors import InputError
from trainyard.findings.finding import Finding
from trainyard.findings.suppress import Suppression, find
from trainyard.kustomize.kustomization import load_graph
from trainyard.kustomize.render import render
from trainyard.kustomize.rendered import OriginLater, rendered_folder
from trainyard.lint.outcome import Judgement
from trainyard.lint.result import finding_of, input_finding
from trainyard.objects.manifests import read_manifests
from trainyard.objects.origin import Origin
from trainyard.objects.unit import Unit
from trainyard.repository.discover import Target, TargetKind
from trainyard.rules.gitops.fields import QUEUE, label
from trainyard.rules.registry import Problem, Rule
from trainyard.yaml.sources import Sources

ANYWHERE = ""
"""The cluster of what names none: a server without platform objects."""
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")


@dataclass(slots=True)
class Candidate:
    """A target, what was found of it so far, and what all have to be told apart by before any is asked about."""

    target: Target
    findings: list[Finding] = field(default_factory=list)
    place: int | None = None
    """Where its objects are in the file; None where there are none."""
    cluster: str = ANYWHERE
    """The cluster that a job lands on."""
    kinds: frozenset[tuple[str, str]] = frozenset()
    """apiVersion and kind of its objects."""
    is_queued: bool = False
    """Whether Kueue decides when a job of it starts."""

    def add(self, found: Iterable[tuple[Rule, Problem]], origin: Origin) -> None:
        """Problems become findings."""
        self.findings += [finding_of(rule, problem, origin, self.target.name) for rule, problem in found]

    def judgement(self, sources: Sources) -> Judgement:
        """What the server said of it. Not every rule was asked, so it is not complete."""
        files = {finding.place.position.file for finding in self.findings if finding.place.position}
        suppressions: list[Suppression] = []
        for file in sorted(files & sources.files):
            try:
                suppressions += find(file, sources.text(file))
            except InputError as error:
                self.findings.append(input_finding(error, self.target.name))
        return Judgement(self.target, tuple(self.findings), tuple(suppressions), complete=False)


class Shelf:
    """Renders targets and keeps their objects in a file."""

    def __init__(self, root: Path, sources: Sources, file: IO[bytes]) -> None:
        self._root = root
        self._sources = sources
        self._file = file

    def put(self, targets: Sequence[Target], progress: Progress) -> list[Candidate]:
        """Render targets and put their objects away. Those that cannot be judged get a finding instead."""
        made = [Candidate(target) for target in targets]
        asked: deque[Candidate] = deque()
        for rendering in render(self._root, self._folders(made, asked)):
            each = asked.popleft()
            try:
                folder = rendered_folder(self._sources, each.target, rendering)
            except InputError as error:
                each.findings.append(input_finding(error, each.target.name))
            else:
                progress(f"rendered {each.target.name}")
                each.findings += folder.findings
                if folder.made is not None:
                    self._put(each, folder.made[0])
            self._sources.forget(each.target.name)
        return made

    def taken(self, made: Iterable[Candidate]) -> Iterator[tuple[Candidate, Unit, Origin]]:
        """Each target that has a unit, with it and with where its fields were written."""
        for each in made:
            if each.place is None:
                continue
            self._file.seek(each.place)
            unit: Unit = pickle.load(self._file)
            yield each, unit, self._origin(each.target, unit)
            self._sources.forget(each.target.name)

    def _folders(self, made: Iterable[Candidate], asked: deque[Candidate]) -> Iterator[str]:
        """Folders that may be rendered. What kustomize is not needed for is put away on the way."""
        for each in made:
            target = each.target
            try:
                if target.kind is TargetKind.MANIFESTS:
                    self._put(each, read_manifests(target.name, target.files, self._sources)[0])
                    twice = (error for file in target.files for error in self._sources.twice(file))
                    each.findings += (input_finding(error, target.name) for error in twice)
                    continue
                load_graph(self._sources, target.name)
            except InputError as error:
                each.findings.append(input_finding(error, target.name))
                continue
            asked.append(each)
            yield target.name

    def _put(self, made: Candidate, unit: Unit) -> None:
        fact = unit.fact("Cluster")
        if fact is not None and _CLUSTER_NAME.match(fact.name):
            made.cluster = fact.name
        made.kinds = frozenset((item.api_version, item.kind) for item in unit.objects)
        made.is_queued = any(label(item, QUEUE) for item in unit.objects)
        made.place = self._file.seek(0, os.SEEK_END)
        pickle.dump(unit, self._file)

    def _origin(self, target: Target, unit: Unit) -> Origin:
        """Where the fields of a target were written. Its files are read again for this: few runs ask of a folder."""
        if target.kind is TargetKind.MANIFESTS:
            return read_manifests(target.name, target.files, self._sources)[1]
        return OriginLater(self._sources, target, [item.data for item in unit.objects])
