"""The difference that two revisions make, as data. Every text in it may come from a stranger's pull request."""

from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What happened to a folder, in the order in which reports tell it."""

    NEW = "new"
    EDITED = "edited"
    RENAMED = "renamed"
    REMOVED = "removed"
    PLATFORM = "platform"
    """A folder of a cluster that Argo CD or Flux apply at once."""
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
class FindingLine:
    """A finding, in a line."""

    severity: str
    rule: str
    message: str
    where: str
    """file:line, or empty."""
    reason: str = ""
    """Why it is silenced, where it is."""


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
    new: tuple[FindingLine, ...]
    fixed: tuple[FindingLine, ...]
    silenced: tuple[FindingLine, ...] = ()
    """Findings that are not told any more, or never were, since somebody gave a reason in this change."""
    problem_before: str = ""
    """Why the base's side cannot be rendered."""
    problem: str = ""
    """Why the new side cannot be."""
    same: tuple[str, ...] = ()
    """Other folders with the same difference but for their names; for shared edits alone."""

    @property
    def shown(self) -> tuple[Change, ...]:
        """Numbers and settings that say something: all of a new job, a removed one's numbers, else what differs."""
        if self.kind is Kind.NEW:
            return tuple(change for change in (*self.numbers, *self.settings) if change.after)
        if self.kind is Kind.REMOVED:
            return tuple(change for change in self.numbers if change.before)
        return tuple(change for change in (*self.numbers, *self.settings) if change.before != change.after)

    @property
    def counted(self) -> tuple[str, ...]:
        """What is added and removed whole, a line each: nobody reads that as a diff."""
        said = []
        for what in ("added", "removed"):
            titles = [item.title for item in self.objects if item.what == what]
            if len(titles) > 3 or self.kind in (Kind.NEW, Kind.REMOVED):
                kinds = Counter(title.partition("/")[0] for title in titles)
                listed = ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())
                said += [f"{len(titles)} objects are {what}: {listed}"] if titles else []
            else:
                said += [f"{title} is {what}" for title in titles]
        if self.kind is Kind.SHARED and any(item.what == "added" for item in self.objects):
            said.append("what is added comes to running jobs too")
        return tuple(said)

    @property
    def detailed(self) -> tuple[ObjectDiff, ...]:
        """Objects that are shown line by line: those that both sides have and, of a cluster's own, new ones too."""
        new = "added" if self.kind is Kind.PLATFORM and self.before else "changed"
        return tuple(item for item in self.objects if item.what in ("changed", new) and item.lines)

    @property
    def one_sided(self) -> bool:
        """Whether only one side has the folder, so that values have no before and after."""
        return self.kind in (Kind.NEW, Kind.REMOVED)

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
        if silenced := sum(len(folder.silenced) for folder in self.folders):
            said.append(f"{silenced} newly suppressed")
        return ", ".join(said) or "no job and no platform changes"

    def _counted(self, kind: Kind) -> list[str]:
        return [name for folder in self.of(kind) for name in (folder.folder, *folder.same)]
