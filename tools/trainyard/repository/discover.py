"""Finds what to judge: job folders, folders with a kustomization, plain manifests, or standard input."""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from trainyard.errors import InputError, UsageError

KUSTOMIZATION_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
SETTINGS = "trainyard.yaml"
"""How a repository of another layout is judged, at its root (trainyard.lint.settings)."""

_BEGINNING = 64 * 1024
"""Bytes of a job.yaml in which its kind is looked for."""


NO_JOB = "there is no job yet"
"""What commands say of a repository of jobs that holds none: it passes."""


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


def repository_root(cwd: Path, paths: Sequence[str]) -> Path:
    """The checkout that is meant: the one that `cwd` lies in, else that of the first path, else `cwd` itself.

    Where the first path lies in a checkout of its own, outside that of `cwd`, that is meant. A checkout is the nearest
    folder with a .git or, where there is none, with a jobs/ folder.
    """
    here = Path(os.path.realpath(cwd))
    own = checkout(here)
    for path in paths[:1]:
        there = Path(os.path.normpath(cwd / path))  # a symlink of this checkout does not choose another
        if path != STDIN and (own is None or not there.is_relative_to(own)):
            own = checkout(Path(os.path.realpath(there))) or own
    return own or here


def checkout(start: Path) -> Path | None:
    """The nearest folder with a .git, at `start` or above it, or where there is none, with a jobs/ folder."""
    for mark in (".git", "jobs"):
        for folder in (start, *start.parents):
            if os.path.isdir(folder / mark) or (mark == ".git" and os.path.isfile(folder / mark)):
                return folder
    return None


def discover(paths: Sequence[str], root: Path, cwd: Path) -> Discovery:
    """Targets for command-line paths (relative to `cwd`), or every job under jobs/ when there are none.

    Raises UsageError where there is nothing to look at: no input is never a pass. A repository before its first job is
    something: `whole` has the platforms of its clusters judged.
    """
    whole = not paths
    if whole:
        if not os.path.isdir(root / "jobs"):
            if is_trainyard(root):
                return Discovery((), (), whole)
            raise UsageError(f"no jobs/ folder in {root}: name job folders or manifest files to lint")
        paths, cwd = ["jobs"], root
    if "" in paths:
        raise UsageError("a PATH is empty: an unset variable, perhaps")
    search = _Search(root)
    for path in paths:
        try:
            search.named(path, cwd)
        except InputError as error:
            search.errors.append(error)
    return Discovery(tuple(search.targets.values()), tuple(search.errors), whole or "jobs" in search.folders)


class _Search:
    """What was found so far. Names are real ones, so that a folder is judged once whatever symlinks lead to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.trainyard = is_trainyard(root)
        self.targets: dict[str, Target] = {}
        self.errors: list[InputError] = []
        self.folders: set[str] = set()
        """Folders that were searched through."""

    def named(self, path: str, cwd: Path) -> None:
        """Find what a path of the command line stands for. InputError where it is nothing that can be judged."""
        if path == STDIN:
            self._add(Target(STDIN, TargetKind.MANIFESTS, (STDIN,)))
            return
        where = Path(os.path.normpath(cwd / path))
        try:
            mode = where.stat().st_mode
        except OSError as error:
            raise InputError(_why(error), self._shown(where) or path, help=self._near(where)) from None
        except ValueError:
            raise InputError("is not a path", path) from None
        name = self._name(where, path)
        if stat.S_ISDIR(mode):
            if self._folder(name):
                return
            before = len(self.targets) + len(self.errors)
            self._below(name)
            nothing = len(self.targets) + len(self.errors) == before and name not in self.targets
            if nothing and not (name == "jobs" and self.trainyard):  # there is no job yet
                raise InputError("holds neither a job folder, nor a kustomization, nor manifests", name)
        elif not stat.S_ISREG(mode):
            raise InputError("is not a regular file", name)
        elif where.name in KUSTOMIZATION_NAMES or (where.name == "job.yaml" and self._is_job(where.parent, name)):
            self._folder(self._name(where.parent, path))
        else:
            self._add(Target(name, TargetKind.MANIFESTS, (name,)))

    def _near(self, where: Path) -> str:
        """The job that may have been meant by a path which does not exist; empty where none is alike."""
        import difflib

        jobs = {file.parent.name: file.parent for file in self.root.glob("jobs/*/*/job.yaml")}
        alike = difflib.get_close_matches(where.name, jobs, 1, 0.8)
        return f"did you mean {jobs[alike[0]].relative_to(self.root).as_posix()}?" if alike else ""

    def _add(self, target: Target) -> None:
        self.targets.setdefault(target.name, target)

    def _folder(self, name: str) -> bool:
        """Take a folder as one target; False where it is none."""
        folder = self.root / name
        is_job = self._is_job(folder, name)
        if not is_job and not has_kustomization(folder):
            return False
        if is_job and (error := _unfit(folder, name)):
            self.errors.append(error)
        else:
            self._add(Target(name, TargetKind.JOB if is_job else TargetKind.KUSTOMIZATION))
        if not is_job and name.split("/")[0] == "jobs":
            self._below(name, manifests=False)
        return True

    def _is_job(self, folder: Path, name: str) -> bool:
        """True for a job folder in its place, and for one elsewhere: job.yaml is a name that plain manifests have too.

        Where the layout is not Trainyard's, jobs/ is a folder as any other. Where it is, Argo CD and Flux apply every
        folder in place as a job: it is judged as one, whatever its job.yaml says.
        """
        if self.trainyard and is_job_place(name.removesuffix("/job.yaml")):
            return True
        return has_kustomization(folder) and _is_training_job(folder / "job.yaml")

    def _below(self, folder: str, *, manifests: bool = True) -> None:
        """Take what is under a folder: jobs and kustomizations, and its `manifests`, together as one target."""
        if folder in self.folders:
            return
        self.folders.add(folder)
        files: list[str] = []
        for name, is_folder in _entries(self.root / folder, folder):
            child = name if folder == "." else f"{folder}/{name}"
            if not is_folder:
                if name.endswith(MANIFEST_SUFFIXES):
                    files.append(child)
                continue
            try:
                real = self._name(self.root / child, child)
                if not self._folder(real):
                    self._below(real)
            except InputError as error:
                self.errors.append(error)
        if files and manifests:
            self._add(Target(folder, TargetKind.MANIFESTS, tuple(files)))

    def _name(self, where: Path, shown: str) -> str:
        """Real path below the root. InputError where it leads out."""
        name = self._shown(Path(os.path.realpath(where)))
        if name is None:
            way = " through a symlink" if self._shown(where) is not None else ""
            name = self._shown(where) or shown
            raise InputError(f"lies outside the repository {self.root}{way}", name, help="judge it in its own, or by -")
        return name

    def _shown(self, where: Path) -> str | None:
        try:
            return where.relative_to(self.root).as_posix()
        except ValueError:
            return None


def _unfit(folder: Path, name: str) -> InputError | None:
    """Why a job folder is none, if so."""
    try:
        names = set(os.listdir(folder))
    except OSError as error:
        return InputError(_why(error), name)
    if names.isdisjoint(KUSTOMIZATION_NAMES):
        return InputError("is not a job folder: kustomization.yaml is missing", name)
    if "job.yaml" not in names:
        return InputError("is not a job folder: job.yaml is missing", name)
    return None


def is_job_place(name: str) -> bool:
    """jobs/<team>/<job> is where a job folder is expected, whatever it holds."""
    parts = name.split("/")
    return len(parts) == 3 and parts[0] == "jobs"


_TRAINING_JOB = re.compile(rb"^kind: *[\"']?TrainingJob\b", re.MULTILINE)


def _is_training_job(file: Path) -> bool:
    if not os.path.isfile(file):
        return False
    try:
        with open(file, "rb") as opened:
            return _TRAINING_JOB.search(opened.read(_BEGINNING)) is not None
    except OSError:
        return False


def is_trainyard(root: Path) -> bool:
    """True where the layout is Trainyard's: the defaults of every job are there, or a job in its place."""
    if os.path.isfile(root / "base/run/training-job.yaml"):
        return True
    return any(_is_training_job(file) for file in root.glob("jobs/*/*/job.yaml"))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """True of what a pattern stands for, and of what lies below it. `*` stands for any text, `/` included."""
    folders = [pattern.rstrip("/") for pattern in patterns]
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*") for pattern in folders)


def has_kustomization(folder: Path) -> bool:
    """True where kustomize would find a kustomization."""
    return any(os.path.isfile(folder / name) for name in KUSTOMIZATION_NAMES)


def _entries(folder: Path, name: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir()) for entry in found if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(_why(error), name) from None
    return sorted(entries)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"
