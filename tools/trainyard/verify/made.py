"""Rendered targets, whose objects wait in a file until a server is asked about them: one is in memory at a time."""

import os
import pickle
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO

from trainyard.commandline import Progress
from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Position
from trainyard.findings.suppress import Suppression, find
from trainyard.kustomize.render import Rendering, render
from trainyard.kustomize.rendered import Prepared
from trainyard.lint.outcome import Judgement
from trainyard.lint.result import finding_of, input_finding
from trainyard.objects.manifests import read_manifests
from trainyard.objects.objects import Object
from trainyard.objects.origin import Origin, Trace
from trainyard.objects.unit import Unit
from trainyard.repository.discover import Target, TargetKind
from trainyard.rules.registry import Problem, Rule
from trainyard.yaml.fieldpath import Path as FieldPath
from trainyard.yaml.sources import Sources

ANYWHERE = ""
"""The cluster of what names none: a server without platform objects."""
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")


@dataclass(slots=True)
class Made:
    """A target, what was found of it so far, and what all have to be told apart by before any is asked about."""

    target: Target
    findings: list[Finding] = field(default_factory=list)
    place: int | None = None
    """Where its objects are in the file; None where there are none."""
    cluster: str = ANYWHERE
    """The cluster that a job lands on."""
    kinds: frozenset[tuple[str, str]] = frozenset()
    """apiVersion and kind of its objects."""

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

    def put(self, targets: Sequence[Target], progress: Progress) -> list[Made]:
        """Render targets and put their objects away. Those that cannot be judged get a finding instead."""
        made = [Made(target) for target in targets]
        asked: deque[tuple[Made, Prepared]] = deque()
        for rendering in render(self._root, self._folders(made, asked)):
            each, prepared = asked.popleft()
            try:
                unit, _ = prepared.unit(rendering)
            except InputError as error:
                each.findings.append(input_finding(error, each.target.name))
            else:
                progress(f"rendered {each.target.name}")
                self._put(each, unit)
            self._sources.forget(each.target.name)
        return made

    def taken(self, made: Iterable[Made]) -> Iterator[tuple[Made, Unit, Origin]]:
        """Each target that has a unit, with it and with where its fields were written."""
        for each in made:
            if each.place is None:
                continue
            self._file.seek(each.place)
            unit: Unit = pickle.load(self._file)
            yield each, unit, _Late(self._sources, each.target, unit)
            self._sources.forget(each.target.name)

    def _folders(self, made: Iterable[Made], asked: "deque[tuple[Made, Prepared]]") -> Iterator[str]:
        """Folders that may be rendered. What kustomize is not needed for is put away on the way."""
        for each in made:
            target = each.target
            try:
                if target.kind is TargetKind.MANIFESTS:
                    self._put(each, read_manifests(target.name, target.files, self._sources)[0])
                    continue
                prepared = Prepared(self._sources, target)
            except InputError as error:
                each.findings.append(input_finding(error, target.name))
                continue
            each.findings += prepared.findings
            if prepared.may_render:
                asked.append((each, prepared))
                yield target.name

    def _put(self, made: Made, unit: Unit) -> None:
        fact = unit.fact("Cluster")
        if fact is not None and _CLUSTER_NAME.match(fact.name):
            made.cluster = fact.name
        made.kinds = frozenset((item.api_version, item.kind) for item in unit.objects)
        made.place = self._file.seek(0, os.SEEK_END)
        pickle.dump(unit, self._file)


class _Late:
    """Where the fields of a target were written. It is read again for this, since few runs ask."""

    def __init__(self, sources: Sources, target: Target, unit: Unit) -> None:
        self._sources = sources
        self._target = target
        self._unit = unit

    @cached_property
    def _origin(self) -> Origin:
        target = self._target
        if target.kind is TargetKind.MANIFESTS:
            return read_manifests(target.name, target.files, self._sources)[1]
        rendering = Rendering(target.name, [item.data for item in self._unit.objects], {}, "")
        return Prepared(self._sources, target).unit(rendering)[1]

    def position(self, rendered: Object, path: FieldPath, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there."""
        return self._origin.position(rendered, path, at_key)

    def trace(self, rendered: Object, path: FieldPath) -> Trace | None:
        """The way to a field."""
        return self._origin.trace(rendered, path)
