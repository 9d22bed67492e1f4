"""What is to be judged: what a command line names, or else what the repository says."""

import itertools
import posixpath
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.errors import InputError, UsageError
from trainyard.repository.discover import (
    SETTINGS,
    Discovery,
    Target,
    discover,
    has_kustomization,
    is_trainyard,
    matches,
)

if TYPE_CHECKING:
    from trainyard.lint.settings import Settings


def readable(root: Path) -> "Settings | None":
    """The settings of a repository; None where it has none, or none that can be read, which linting tells."""
    if not (root / SETTINGS).is_file():
        return None
    from trainyard.lint.settings import settings
    from trainyard.yaml.sources import Sources

    try:
        return settings(root, Sources(root))
    except InputError:
        return None


def asked(root: Path, cwd: Path, paths: Sequence[str]) -> Discovery:
    """What the paths of a command line, relative to `cwd`, or else those of trainyard.yaml lead to.

    Where neither names one, it is every job of a repository of Trainyard's layout, and whatever Git tracks of others.
    UsageError where there is nothing to judge.
    """
    own = readable(root)
    if paths or is_trainyard(root) or (root / "jobs").is_dir():
        found = discover(paths, root, cwd)
    elif (root / ".git").exists():
        from trainyard.repository.changed import tracked_files
        from trainyard.repository.survey import survey

        found = survey(root, tracked_files(root))
        if own is not None and own.paths:
            found = _within(found, own.paths, root)
        elif not found.targets:
            raise UsageError(f"Git tracks no manifest in {root}: name folders or manifest files to lint")
    else:
        found = discover(own.paths if own is not None else (), root, root)
    return without(found, own)


def _within(found: Discovery, paths: Sequence[str], root: Path) -> Discovery:
    """What lies below the paths of what was found, and what they name themselves: a file, a base, what Git ignores."""
    names = [posixpath.normpath(path) for path in paths]
    below = {
        name: [each for each in found.targets if name == "." or f"{each.name}/".startswith(f"{name}/")]
        for name in names
    }
    named = [
        name
        for name, targets in below.items()
        if not targets or (has_kustomization(root / name) and name not in {each.name for each in targets})
    ]
    alone = discover(named, root, root) if named else Discovery((), (), whole=False)
    targets = {each.name: each for each in (*itertools.chain(*below.values()), *alone.targets)}
    return Discovery(tuple(targets.values()), alone.errors, alone.whole)


def without(found: Discovery, own: "Settings | None") -> Discovery:
    """What was found but for the settings and what they exclude. UsageError where nothing is left of it."""
    if own is None:
        return found
    patterns = (SETTINGS, *([own.baseline] if own.baseline else []), *own.exclude)
    targets = []
    for target in found.targets:
        if not target.files:
            targets += [] if matches(target.name, patterns) else [target]
        elif files := tuple(file for file in target.files if not matches(file, patterns)):
            targets.append(Target(target.name, target.kind, files))
    if found.targets and not targets:
        raise UsageError(f"{SETTINGS} leaves nothing to judge of what is named")
    return replace(found, targets=tuple(targets))
