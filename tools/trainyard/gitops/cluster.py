"""What a cluster holds before any job comes: clusters/<name>/platform, rendered once a run for all its jobs."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainyard.cache import ABSENT, Cache
from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.kustomize.kustomization import has_kustomization, load_graph
from trainyard.kustomize.render import Rendering, render
from trainyard.kustomize.rendered import OriginLater, rendered_folder
from trainyard.objects.objects import Object
from trainyard.objects.origin import Origin, Trace
from trainyard.objects.unit import Unit
from trainyard.repository.discover import KUSTOMIZATION_NAMES, Target, TargetKind
from trainyard.yaml.fieldpath import Path as FieldPath
from trainyard.yaml.sources import Sources

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")
_OUR_GROUP = "trainyard.dev/"


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform of one cluster."""

    objects: tuple[Object, ...]
    origin: Origin
    reads: Mapping[str, str]
    """All that it depends on, as a Rendering says it."""
    numbered: dict[int, tuple[Object, ...]] = field(default_factory=dict, repr=False, compare=False)
    """The objects, numbered on from a number of a unit's own: jobs of one shape have as many."""

    def numbered_from(self, first: int) -> tuple[Object, ...]:
        """The objects with numbers that go on where a unit's own end."""
        if first not in self.numbered:
            self.numbered[first] = tuple(replace(item, index=first + item.index) for item in self.objects)
        return self.numbered[first]


class Platforms:
    """The platforms of a repository's clusters, each rendered at most once."""

    def __init__(
        self,
        root: Path,
        sources: Sources,
        cache: Cache | None = None,
        steady: Callable[[Mapping[str, str]], bool] | None = None,
    ) -> None:
        """`steady` says of what a rendering read whether it is what `sources` read; platforms are kept only with it."""
        self._root = root
        self._sources = sources
        self._cache = cache
        self._steady = steady
        self._known: dict[str, Platform | InputError] = {}
        self._asked: set[str] = set()

    def to_render(self, files: Iterable[str]) -> list[str]:
        """Platform folders of the clusters whose facts are in `files`, as far as they may be rendered and were not."""
        folders = platforms_named(self._sources, files)
        fresh = [each for each in folders if each not in self._asked and each not in self._known]
        self._asked.update(fresh)
        return [each for each in fresh if not self._recall(each) and self._may_render(each)]

    def _recall(self, folder: str) -> bool:
        """Take a platform from an earlier run, if it still holds."""
        entry = None if self._cache is None else self._cache.entry(_key(folder))
        if entry is None or not isinstance(entry.result, list):
            return False
        if not all(isinstance(data, dict) for data in entry.result):
            return False
        objects = tuple(Object.of(data, index) for index, data in enumerate(entry.result))
        self._known[folder] = Platform(
            objects, OriginLater(self._sources, _platform(folder), entry.result), entry.reads
        )
        return True

    def offer(self, folder: str, rendering: Rendering) -> None:
        """Keep what a folder came to, if it is a platform that was to be rendered."""
        if folder in self._asked:
            self.keep(folder, rendering)

    def keep(self, folder: str, rendering: Rendering) -> None:
        """Keep what a platform folder came to."""
        try:
            unit, origin = rendered_folder(self._sources, _platform(folder), rendering).whole()
            self._known[folder] = Platform(unit.objects, origin, rendering.reads)
            if self._cache is not None and self._steady is not None and self._steady(rendering.reads):
                self._cache.put(_key(folder), rendering.reads, (), rendering.objects)
        except InputError as error:
            self._known[folder] = error

    def refuse(self, folder: str, error: InputError) -> None:
        """Do not look at a platform folder any more."""
        self._known[folder] = error

    def reads(self, unit: Unit) -> Mapping[str, str]:
        """What the judgement of a unit depends on beside its own files. InputError where its platform is broken."""
        folder = _folder_of(unit)
        if folder is None:
            return {}
        found = self._of(folder)
        return {f"{folder}/{name}": ABSENT for name in KUSTOMIZATION_NAMES} if found is None else found.reads

    def under(self, unit: Unit, origin: Origin) -> tuple[Unit, Origin]:
        """A unit with the platform of the cluster that it lands on. InputError where that is broken."""
        folder = _folder_of(unit)
        found = None if folder is None else self._of(folder)
        if found is None:
            return unit, origin
        first = len(unit.objects) + len(unit.facts)
        return replace(unit, platform=found.numbered_from(first)), _Both(origin, found.origin, first)

    def _of(self, folder: str) -> Platform | None:
        if folder not in self._known and self._may_render(folder):
            (rendering,) = render(self._root, [folder], unsaved=self._sources.unsaved)
            self.keep(folder, rendering)
        found = self._known.get(folder)
        if isinstance(found, InputError):
            raise found
        return found

    def _may_render(self, folder: str) -> bool:
        """Whether there is a platform folder that asks for nothing that is refused."""
        if not has_kustomization(self._sources, folder):
            return False
        try:
            load_graph(self._sources, folder)
        except InputError as error:
            self._known[folder] = error
            return False
        return True


def _key(folder: str) -> str:
    return f"platform\0{folder}"


def _platform(folder: str) -> Target:
    return Target(folder, TargetKind.KUSTOMIZATION)


def platforms_named(sources: Sources, files: Iterable[str]) -> list[str]:
    """Platform folders of the clusters whose facts are in `files`, whether they are there or not."""
    return list(dict.fromkeys(each for file in sorted(set(files)) if (each := _named_in(sources, file)) is not None))


def on_platform(unit: Unit, origin: Origin, objects: tuple[Object, ...], below: Origin) -> tuple[Unit, Origin]:
    """A unit on a platform of these objects, and the origin of both."""
    first = len(unit.objects) + len(unit.facts)
    numbered = tuple(replace(item, index=first + item.index) for item in objects)
    return replace(unit, platform=numbered), _Both(origin, below, first)


class _Both:
    """The origin of a unit and of its platform."""

    def __init__(self, unit: Origin, platform: Origin, first: int) -> None:
        self._unit = unit
        self._platform = platform
        self._first = first

    def position(self, rendered: Object, path: FieldPath, at_key: bool = False) -> Position | None:
        """The place of a field in the one or the other."""
        if rendered.index < self._first:
            return self._unit.position(rendered, path, at_key)
        return self._platform.position(replace(rendered, index=rendered.index - self._first), path, at_key)

    def trace(self, rendered: Object, path: FieldPath) -> Trace | None:
        """The way to a field in the one or the other."""
        if rendered.index < self._first:
            return self._unit.trace(rendered, path)
        return self._platform.trace(replace(rendered, index=rendered.index - self._first), path)


def _folder_of(unit: Unit) -> str | None:
    cluster = unit.fact("Cluster")
    return None if cluster is None else _folder(cluster.name)


def _folder(cluster: str) -> str | None:
    return f"clusters/{cluster}/platform" if _NAME.match(cluster) else None


def _named_in(sources: Sources, file: str) -> str | None:
    """The platform of the cluster whose facts a file holds."""
    try:
        if "kind: Cluster" not in sources.text(file):
            return None
        for document in sources.documents(file):
            version, kind, name = (document.at(path) for path in (("apiVersion",), ("kind",), ("metadata", "name")))
            ours = version is not None and str(version.value).startswith(_OUR_GROUP)
            if ours and kind is not None and kind.value == "Cluster" and name is not None:
                return _folder(str(name.value))
    except InputError:
        pass
    return None
