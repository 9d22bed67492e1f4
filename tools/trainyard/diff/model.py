"""The difference that two revisions make, as data. Every text in it may come from a stranger's pull request."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What happened to a folder, in the order in which reports tell it."""

    NEW = "new"
    EDITED = "edited"
    RENAMED = "renamed"
    REMOVED = "removed"
    PLATFORM = "platform"
    """A cluster's own objects, which are applied at once."""
    SHARED = "shared"
    """A job whose own folder is unchanged: its base, fabric or cluster was edited."""

    @property
    def meaning(self) -> str:
        """What that does to the cluster, in a sentence."""
        return _MEANING[self]


_MEANING = {
    Kind.NEW: "created when this is merged",
    Kind.EDITED: "a job is created once: this edit does not reach its run",
    Kind.RENAMED: "a run of the new name is created, that of the old name is stopped; its claim stays",
    Kind.REMOVED: "its run is stopped when this is merged; its claim stays",
    Kind.PLATFORM: "applied to the cluster when this is merged",
    Kind.SHARED: "new jobs only: objects of runs that exist are left as they are",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One value, before and after; empty where there is none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """One rendered object that differs."""

    title: str
    """kind/namespace/name."""
    what: str
    """added, removed or changed."""
    lines: tuple[str, ...]
    """A unified diff of its YAML, without file names."""


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, in a line."""

    severity: str
    rule: str
    message: str
    where: str
    """file:line, or empty."""


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """What differs in one folder."""

    kind: Kind
    folder: str
    before: str
    """Its folder in the base; empty where it is new."""
    objects: tuple[ObjectDiff, ...]
    settings: tuple[Change, ...]
    """Variables that the training container finds, effective ones, that differ."""
    numbers: tuple[Change, ...]
    """GPUs, quota and forecast: all of them, whether they differ or not."""
    new: tuple[Told, ...]
    fixed: tuple[Told, ...]
    problem_before: str = ""
    """Why the base's side cannot be rendered."""
    problem: str = ""
    """Why the new side cannot be."""
    same: tuple[str, ...] = ()
    """Other folders with the same difference but for their names; for shared edits alone."""

    @property
    def name(self) -> str:
        """The folder, and what it was called."""
        return f"{self.before} -> {self.folder}" if self.kind is Kind.RENAMED else self.folder


@dataclass(frozen=True, slots=True)
class Difference:
    """All of it."""

    base: str
    """As it was named on the command line."""
    commit: str
    """Id of the commit that it stands for, shortened."""
    folders: tuple[FolderDiff, ...]

    def of(self, kind: Kind) -> tuple[FolderDiff, ...]:
        """The folders of a kind."""
        return tuple(folder for folder in self.folders if folder.kind is kind)

    @property
    def new_errors(self) -> int:
        """Errors that were not there before."""
        return sum(told.severity == "error" for folder in self.folders for told in folder.new)

    @property
    def headline(self) -> str:
        """All of it in a line."""
        said = [f"{len(there)} {kind.value}" for kind in Kind if (there := self._counted(kind))]
        new = [told for folder in self.folders for told in folder.new]
        fixed = sum(len(folder.fixed) for folder in self.folders)
        if new or fixed:
            said.append(f"{len(new)} new findings ({self.new_errors} errors), {fixed} fixed")
        return ", ".join(said) or "no job and no platform changes"

    def _counted(self, kind: Kind) -> list[str]:
        return [name for folder in self.of(kind) for name in (folder.folder, *folder.same)]
