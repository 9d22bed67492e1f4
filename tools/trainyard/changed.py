"""What a git range touches, so that only the jobs that read those files are judged."""

import subprocess
from pathlib import Path

from trainyard.errors import UsageError


def changed_files(root: Path, base: str) -> frozenset[str]:
    """Files that differ, relative to `root`.

    `base` is a revision, compared through its merge base with HEAD to the working tree (untracked files included), or a
    range `A..B` or `A...B` of commits. Raises UsageError where git does not know it.
    """
    if ".." in base:
        return frozenset(_git(root, "diff", "--name-only", "--no-renames", "-z", "--end-of-options", base))
    fork = _git(root, "merge-base", "--end-of-options", base, "HEAD")
    since = fork[0].strip() if fork else base
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", "--end-of-options", since)
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return frozenset(tracked) | frozenset(untracked)


def file_at(root: Path, base: str, file: str) -> str | None:
    """The text of a file where the work on `base` forked off, or None where it did not exist."""
    revision = base.split("..")[0] or "HEAD"
    try:
        fork = _git(root, "merge-base", "--end-of-options", revision, "HEAD")
        text = _git(root, "cat-file", "blob", f"{fork[0].strip()}:{file}", split=False)
    except UsageError:
        return None
    return text[0]


def _git(root: Path, *arguments: str, split: bool = True) -> list[str]:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False, timeout=120)
    except FileNotFoundError:
        raise UsageError("--changed needs git on PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} did not answer within 120 s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"git {arguments[0]}: {lines[0].removeprefix('fatal: ')}")
    text = done.stdout.decode(errors="surrogateescape")
    return [name for name in text.split("\0") if name] if split else [text]


def is_head(root: Path, base: str) -> bool:
    """True where the range starts at the commit that is checked out, so that there is no base branch to compare with."""
    revision = base.split("..")[0] or "HEAD"
    fork = _git(root, "merge-base", "--end-of-options", revision, "HEAD")[0].strip()
    return fork == _git(root, "rev-parse", "HEAD")[0].strip()
