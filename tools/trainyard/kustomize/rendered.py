"""A folder that kustomize renders, as a unit with the place of every value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Position
from trainyard.kustomize.contract import after_rendering, broken_wires, images_without_effect, vanished
from trainyard.kustomize.deprecated import deprecated_fields
from trainyard.kustomize.folder import FACTS, assembly
from trainyard.kustomize.jobfile import check_facts
from trainyard.kustomize.kustomization import Kustomization, load_graph
from trainyard.kustomize.render import Rendering, render_one
from trainyard.kustomize.replay import PatchRecord, Replay, replay
from trainyard.kustomize.unused_values import components_out_of_place, pods_untaken
from trainyard.objects.manifests import place_in, way_to
from trainyard.objects.objects import Object
from trainyard.objects.origin import Origin, Trace
from trainyard.objects.unit import Unit
from trainyard.repository.discover import Target, TargetKind
from trainyard.schemas.violation import describe
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources


class RenderedOrigin:
    """Where the fields of rendered objects were written, and of the facts they were made from."""

    def __init__(self, replayed: Replay, facts: dict[int, Node]) -> None:
        self._replayed = replayed
        self._facts = facts

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there; None where it is not known."""
        fact = self._facts.get(rendered.index)
        return self._replayed.position(rendered, path, at_key) if fact is None else place_in(fact, path, at_key)

    def trace(self, rendered: Object, path: Path) -> Trace | None:
        """The way to a field; None where the replay of the kustomization came to something else than kustomize."""
        fact = self._facts.get(rendered.index)
        return self._replayed.trace(rendered, path) if fact is None else Trace(way_to(fact, path))


class RendererEnded(InputError):
    """The renderer ended while it had this folder: a fault of the renderer or of the machine."""


@dataclass(frozen=True, slots=True)
class RenderedFolder:
    """A rendered folder, as far as the stages before the rules come with it."""

    made: tuple[Unit, Origin] | None
    """Its unit, and where its values were written; None where its sources are wrong already: `findings` say how."""
    findings: list[Finding]

    def whole(self) -> tuple[Unit, Origin]:
        """The unit and its origin. InputError for the first finding where there is none."""
        if self.made is not None:
            return self.made
        finding = self.findings[0]
        at = finding.place.position or Position(finding.jobs[0], 0, 0)
        raise InputError(finding.message, at.file, at.line, at.column, finding.help)


def rendered_folder(sources: Sources, target: Target, rendering: Rendering) -> RenderedFolder:
    """A folder and what kustomize made of it.

    InputError where the folder cannot be read or kustomize refused it; RendererEnded where the renderer ended.
    """
    return _Folder(sources, target).with_rendering(rendering)


def render_alone(root: FilePath, target: Target, sources: Sources) -> tuple[Unit, Origin, Mapping[str, str]]:
    """One folder by itself: its unit, where its values were written, and the digest of each file it was rendered from.

    InputError for the first that is wrong with it; Fault where the renderer ended.
    """
    folder = _Folder(sources, target)
    rendering = Rendering(target.name, [], {}, "") if folder.findings else render_one(root, target.name)
    return *folder.with_rendering(rendering).whole(), rendering.reads


class OriginLater:
    """Where the values of a folder were written that was rendered before: it is read again once somebody asks."""

    def __init__(self, sources: Sources, target: Target, objects: list[dict[str, Any]]) -> None:
        self._sources = sources
        self._target = target
        self._rendering = Rendering(target.name, objects, {}, "")

    @cached_property
    def _origin(self) -> Origin | None:
        try:
            return rendered_folder(self._sources, self._target, self._rendering).whole()[1]
        except InputError:  # a file has changed since
            return None

    def position(self, rendered: Object, path: Path, at_key: bool = False) -> Position | None:
        """The place of a field, or of the nearest one above it that is there; None where a file has changed since."""
        return None if self._origin is None else self._origin.position(rendered, path, at_key)

    def trace(self, rendered: Object, path: Path) -> Trace | None:
        """The way to a field; None where a file has changed since."""
        return None if self._origin is None else self._origin.trace(rendered, path)


class _Folder:
    """A folder that was checked as far as its sources tell. Where `findings` has something, it is not opened."""

    def __init__(self, sources: Sources, target: Target) -> None:
        self.sources = sources
        self.target = target
        self.findings: list[Finding] = []
        self.replayed: Replay | None = None
        self.kustomization: Kustomization
        self._check()

    def _check(self) -> None:
        folder = self.target.name
        graph = load_graph(self.sources, folder)
        self._kustomizations = graph.kustomizations
        self.kustomization = graph.kustomizations[graph.folder]
        is_job = self.target.kind is TargetKind.JOB
        if is_job:
            self.findings += self._job_file(f"{folder}/job.yaml")
            if self.findings:
                return
        self.replayed = replay(self.sources.root, folder, self.sources)
        if is_job:
            self.findings += assembly(folder, self.kustomization, self.replayed, self.sources)
            self.findings += components_out_of_place(folder, self._kustomizations, self.replayed)
            if self.findings:
                return
        for patch in self.replayed.patches:
            if patch.matched == 0 and (self.replayed.objects or self.replayed.facts):  # a list may be empty yet
                raise _hits_nothing(patch)
        if is_job:
            self.findings += self._facts(FACTS) or broken_wires(folder, self.replayed)
        else:  # a base's TrainingJob is completed by jobs
            self.findings += self._facts(tuple(kind for kind in FACTS if kind != "TrainingJob"))

    def _job_file(self, file: str) -> list[Finding]:
        documents = self.sources.documents(file)
        if len(documents) != 1:
            raise InputError(f"expected one TrainingJob, found {len(documents) or 'no'} documents", file)
        (document,) = documents
        if document.tag != "map":
            line, column = (document.mark.line, document.mark.column) if document.mark else (0, 0)
            raise InputError(f"expected a TrainingJob, found {describe(document.value)}", file, line, column)
        return [self._of_this_job(finding) for finding in check_facts(document, "TrainingJob", sources=self.sources)]

    def _facts(self, kinds: Sequence[str]) -> list[Finding]:
        assert self.replayed is not None
        found = [
            self._of_this_job(finding)
            for node in self.replayed.facts
            if (kind := node.at(("kind",))) is not None and kind.value in kinds
            for finding in check_facts(node, kind.value, sources=self.sources)
        ]
        # A platform reads its cluster's facts once for each of its folders that needs them.
        return list({(each.place.position, each.message): each for each in found}.values())

    def _of_this_job(self, finding: Finding) -> Finding:
        return replace(finding, jobs=(self.target.name,))

    def with_rendering(self, rendering: Rendering) -> RenderedFolder:
        """With what came out, and with what only the replay sees."""
        if self.findings or self.replayed is None:
            return RenderedFolder(None, self.findings)
        if rendering.error:
            raise _refused(rendering, self.replayed, self.target.name)
        objects = tuple(Object.of(data, index) for index, data in enumerate(rendering.objects))
        nodes = dict(enumerate(self.replayed.facts, start=len(objects)))
        facts = tuple(Object.of(node.plain(), index) for index, node in nodes.items())
        is_job = self.target.kind is TargetKind.JOB
        if is_job:
            self.findings += after_rendering(self.target.name, self.replayed, objects)
            self.findings += pods_untaken(self.target.name, self.kustomization, self.replayed)
            self.findings += images_without_effect(self.target.name, self.kustomization.items("images"), objects)
        self.findings += vanished(self.target.name, self.replayed)
        self.findings += deprecated_fields(self.target.name, self._kustomizations, self.sources)
        own = self.sources.documents(f"{self.target.name}/job.yaml")[0].plain() if is_job else {}
        unit = Unit(self.target.name, is_job, objects, facts, own=own)
        return RenderedFolder((unit, RenderedOrigin(self.replayed, nodes)), self.findings)


def _refused(rendering: Rendering, replayed: Replay, folder: str) -> InputError:
    """kustomize's error, at the patch that it is about where kustomize does not say which."""
    if rendering.broke:
        return RendererEnded(rendering.error, folder)
    if not rendering.error_line:
        failed = next((patch.mark for patch in replayed.patches if patch.failed and patch.mark is not None), None)
        if failed is not None:
            return InputError(rendering.error, failed.file, failed.line, failed.column)
    file = rendering.error_file or folder
    return InputError(rendering.error, file, rendering.error_line, 1 if rendering.error_line else 0)


def _hits_nothing(patch: PatchRecord) -> InputError:
    at = patch.entry or patch.mark
    message = "patch hits nothing: no object matches its target"
    if at is None:
        return InputError(message, patch.file)
    return InputError(
        message, at.file, at.line, at.column, "compare kind, name and namespace with the objects it is for"
    )
