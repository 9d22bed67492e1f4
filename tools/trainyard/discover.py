"""Finds what to judge: job folders, folders with a kustomization, plain manifests, or standard input."""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from trainyard.errors import InputError, UsageError

KUSTOMIZATION_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


class TargetKind(Enum):
    """What a target is, which decides how its objects are made."""

    JOB = "job"
    KUSTOMIZATION = "kustomization"
    MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is judged on its own."""

    name: str
    """Path relative to the repository, as reports show it; `-` for standard input."""
    kind: TargetKind
    files: tuple[str, ...] = ()
    """Manifest files, relative to the repository. Empty for folders that kustomize renders."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found, and what could not be."""

    targets: tuple[Target, ...]
    errors: tuple[InputError, ...]
    whole: bool
    """True where every job of the repository was asked for."""


def repository_root(start: Path) -> Path:
    """The checkout that `start` lies in: the nearest folder above it with a .git or a jobs/ folder, else itself."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    for folder in (start, *start.parents):
        if (folder / "jobs").is_dir():
            return folder
    return start


def discover(paths: Sequence[str], root: Path, cwd: Path) -> Discovery:
    """Targets for command-line paths (relative to `cwd`), or every job under jobs/ when there are none.

    Raises UsageError where there is nothing to look at: no input is never a pass.
    """
    targets: dict[str, Target] = {}
    errors: list[InputError] = []
    whole = not paths
    if whole:
        if not (root / "jobs").is_dir():
            raise UsageError(f"no jobs/ folder in {root}: name job folders or manifest files to lint")
        paths, cwd = ["jobs"], root
    for path in paths:
        try:
            for target in _targets(path, root, cwd):
                targets.setdefault(target.name, target)
        except InputError as error:
            errors.append(error)
    for target in list(targets.values()):
        if error := _unfit(target, root):
            errors.append(error)
            del targets[target.name]
    return Discovery(tuple(targets.values()), tuple(errors), whole)


def _targets(path: str, root: Path, cwd: Path) -> Iterable[Target]:
    if path == STDIN:
        return [Target(STDIN, TargetKind.MANIFESTS, (STDIN,))]
    where = Path(os.path.normpath(cwd / path))
    shown = _shown(where, root)
    try:
        mode = where.stat().st_mode
    except OSError as error:
        raise InputError(_why(error), shown or path) from None
    if shown is None:
        raise InputError(f"lies outside the repository {root}", path)
    if not stat.S_ISDIR(mode):
        if not stat.S_ISREG(mode):
            raise InputError("is not a regular file", shown)
        if where.name in KUSTOMIZATION_NAMES:
            return _targets(str(where.parent), root, cwd)
        if where.name == "job.yaml" and has_kustomization(where.parent):
            return _targets(str(where.parent), root, cwd)
        return [Target(shown, TargetKind.MANIFESTS, (shown,))]
    if has_kustomization(where) or (where / "job.yaml").exists() or _is_job_place(shown):
        kind = TargetKind.JOB if (where / "job.yaml").exists() or _is_job_place(shown) else TargetKind.KUSTOMIZATION
        return [Target(shown, kind)]
    return _below(where, shown, root)


def _below(folder: Path, shown: str, root: Path) -> list[Target]:
    """Targets under a folder that is none itself: jobs where there are any, else its manifests as one target."""
    found: list[Target] = []
    manifests: list[str] = []
    for name, is_folder in _entries(folder, shown):
        child = f"{shown}/{name}" if shown != "." else name
        if is_folder:
            if has_kustomization(folder / name) or (folder / name / "job.yaml").exists() or _is_job_place(child):
                found.extend(_targets(str(folder / name), root, root))
            else:
                found.extend(_below_or_nothing(folder / name, child, root))
        elif name.endswith(MANIFEST_SUFFIXES):
            manifests.append(child)
    if manifests:
        found.append(Target(shown, TargetKind.MANIFESTS, tuple(manifests)))
    if not found:
        raise InputError("holds neither a job folder, nor a kustomization, nor manifests", shown)
    return found


def _below_or_nothing(folder: Path, shown: str, root: Path) -> list[Target]:
    try:
        return _below(folder, shown, root)
    except InputError as error:
        if error.message.startswith("holds neither"):
            return []
        raise


def _unfit(target: Target, root: Path) -> InputError | None:
    """Why a job folder is none, if so."""
    if target.kind is not TargetKind.JOB:
        return None
    folder = root / target.name
    try:
        names = set(os.listdir(folder))
    except OSError as error:
        return InputError(_why(error), target.name)
    if not names & set(KUSTOMIZATION_NAMES):
        return InputError("is not a job folder: kustomization.yaml is missing", target.name)
    if "job.yaml" not in names:
        return InputError("is not a job folder: job.yaml is missing", target.name)
    return None


def _is_job_place(shown: str) -> bool:
    """jobs/<team>/<job> is where a job folder is expected, whatever it holds."""
    parts = shown.split("/")
    return len(parts) == 3 and parts[0] == "jobs"


def has_kustomization(folder: Path) -> bool:
    """True where kustomize would find a kustomization."""
    return any((folder / name).is_file() for name in KUSTOMIZATION_NAMES)


def _entries(folder: Path, shown: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    except OSError as error:
        raise InputError(_why(error), shown) from None
    return sorted(entry for entry in entries if not entry[0].startswith("."))


def _shown(where: Path, root: Path) -> str | None:
    try:
        return where.relative_to(root).as_posix()
    except ValueError:
        pass
    try:
        return where.resolve().relative_to(root).as_posix()
    except (ValueError, OSError):
        return None


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"
