"""What an upgrade does to each file, by three contents: as it was shipped, as it is shipped now, as it is here."""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.errors import UsageError
from trainyard.upgrade.record import Record
from trainyard.upgrade.shipped import digest

_LINK, _FOLDER, _OTHER = "a symlink", "a folder", "neither a file nor a folder"
"""What may lie at the name of a file, in the place of a SHA-256."""


@dataclass(slots=True)
class Changes:
    """What an upgrade would do."""

    record: Record
    """What is recorded afterwards."""
    sources: Mapping[str, Path]
    """Where the content of each shipped file lies."""
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Files that stay as they are here, and why."""
    refused: dict[str, str] = field(default_factory=dict)
    """Files, or what is in the way of several, for which somebody has to decide, and why."""

    @property
    def written(self) -> dict[str, Path]:
        """The files that are written, and what with."""
        return {name: self.sources[name] for name in sorted((*self.new, *self.changed))}

    @property
    def any(self) -> bool:
        """Whether a vendored file is written or removed."""
        return any(name in self.record.files for name in (*self.new, *self.changed)) or bool(self.removed)


def changes(
    root: Path,
    before: Record | None,
    version: str,
    vendored: Mapping[str, Path],
    examples: Mapping[str, Path],
    take: Callable[[str], bool],
    keep: Callable[[str], bool],
) -> Changes:
    """What brings `root` from the record `before` to `vendored` of `version`, and the `examples` beside it.

    `take` and `keep` answer for a name whether it is taken as shipped, or left, whatever was changed here. A file that
    is unchanged since it was shipped follows; one that was changed here is kept while what is shipped stays the same,
    and is refused where that changed too. UsageError where a file cannot be read.
    """
    old = {} if before is None else before.files
    new = {name: digest(file) for name, file in vendored.items()}
    found = Changes(Record(version, new), {**vendored, **examples})
    new = new | {name: digest(file) for name, file in examples.items()}
    here = _Here(root)
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        obstacle, content = here.at(name)
        if content == now and not obstacle:
            continue
        if keep(name):
            if now is not None:
                found.kept[name] = "as --keep asks"
        elif now == was and (obstacle or not take(name)):
            found.kept[name] = "deleted here" if content is None and not obstacle else "changed here"
        elif obstacle:
            found.refused[obstacle[0]] = obstacle[1]
        elif content != was and not take(name):
            found.refused[name] = _why(was, now, content, version)
        else:
            (found.removed if now is None else found.new if content is None else found.changed).append(name)
    return found


class _Here:
    """What lies in a repository. No symlink is followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[str, tuple[str, str] | None] = {"": None}

    def at(self, name: str) -> tuple[tuple[str, str] | None, str | None]:
        """What is in the way of a file of this name, and why; and its SHA-256, what it is instead, None if absent."""
        obstacle = self._in_the_way(name.rpartition("/")[0])
        if obstacle:
            return obstacle, None
        kind = self._kind(name)
        if kind == _FOLDER:
            return (name, "is a folder, where a file belongs"), _FOLDER
        try:
            return None, digest(self._root / name) if kind == "" else kind
        except OSError as error:
            raise _unreadable(name, error) from None

    def _in_the_way(self, folder: str) -> tuple[str, str] | None:
        if folder not in self._folders:
            above = self._in_the_way(folder.rpartition("/")[0])
            kind = self._kind(folder) if above is None else None
            if kind not in (None, _FOLDER):
                above = (folder, f"is {kind or 'a file'}, where a folder belongs")
            self._folders[folder] = above
        return self._folders[folder]

    def _kind(self, name: str) -> str | None:
        """Empty for a regular file, None where nothing is there."""
        try:
            mode = os.lstat(self._root / name).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(name, error) from None
        if stat.S_ISREG(mode):
            return ""
        return _LINK if stat.S_ISLNK(mode) else _FOLDER if stat.S_ISDIR(mode) else _OTHER


def _unreadable(name: str, error: OSError) -> UsageError:
    return UsageError(f"cannot read {name}: {(error.strerror or type(error).__name__).lower()}")


def _why(was: str | None, now: str | None, here: str | None, version: str) -> str:
    if was is None:
        return f"is there already, and is not that of {version}"
    if now is None:
        return f"was changed here, and is gone in {version}"
    return f"was {'deleted' if here is None else 'changed'} here, and changed in {version}"
