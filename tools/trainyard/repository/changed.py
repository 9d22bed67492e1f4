"""What a git range touches, so that only the jobs that read those files are judged."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainyard.errors import UsageError
from trainyard.repository.git import blob, git, names, tried


@dataclass(frozen=True, slots=True)
class Range:
    """What `--changed` asks for."""

    text: str
    """As it was written."""
    base: str
    """Id of the commit that is compared with."""
    tip: str | None
    """Id of the commit that is compared; None for the working tree with its untracked files."""
    starts_at_head: bool
    """True where the named base is the commit that is checked out."""
    handed: frozenset[str] | None = None
    """What pre-commit hands over, where it asks: with it only what is staged counts, and no untracked file."""


def resolve(root: Path, text: str, asked: str = "") -> Range:
    """A revision, whose merge base with HEAD is compared with the working tree, or a range `A..B` or `A...B`.

    `asked`: how messages name what asked for it, `--changed TEXT` unless it is said.
    Raises UsageError where git does not know it, or where `root` is not a git repository.
    """
    first, dots, last = text.partition("..")
    last = last.removeprefix(".")
    asked = asked or f"--changed {text}"
    head, start, tip = _commits(root, (first if first or not dots else "HEAD", last or "HEAD" if dots else None), asked)
    between = "..." in text or not dots
    base = _merge_base(root, start, tip or head, asked) if between and start != (tip or head) else start
    return Range(text, base, tip, start == head)


def for_pre_commit(root: Path, handed: Iterable[str], environment: Mapping[str, str]) -> Range:
    """What a run of pre-commit asks for: what is staged, the range of --from-ref and --to-ref, and in any case the
    files that it hands over, which are all of them under --all-files.

    Raises UsageError as `resolve`. In a repository without a commit, everything that is staged is new.
    """
    first, last = (environment.get(f"PRE_COMMIT_{name}_REF") for name in ("FROM", "TO"))
    if first and last:
        return replace(
            resolve(root, f"{first}...{last}", f"--from-ref {first} --to-ref {last}"), handed=frozenset(handed)
        )
    head = _known(root, ["HEAD"])
    base = head[0] if head else git(root, "hash-object", "-t", "tree", os.devnull)
    return Range("HEAD", base, None, True, frozenset(handed))


def changed_files(root: Path, range: Range) -> frozenset[str]:
    """Files that differ, relative to `root`: edited, new, deleted and renamed ones (under both names)."""
    which = ["--cached", range.base] if range.handed is not None and not range.tip else [range.base]
    which += [range.tip] if range.tip else []
    found = names(root, "diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", *which, "--")
    if range.handed is not None:
        return range.handed | {name for name in found if not _left_out(root / name)}
    if range.tip is None:
        found |= names(root, "ls-files", "--others", "--exclude-standard", "-z")
    return found


def tracked_files(root: Path) -> frozenset[str]:
    """Every file that git tracks below `root`, staged ones among them."""
    return names(root, "ls-files", "-z")


def _left_out(file: Path) -> bool:
    """True for a file of the sort that pre-commit hands over: where it did not, its configuration excludes it."""
    return file.suffix in _HANDED and file.is_file() and not file.is_symlink()


_HANDED = (".yaml", ".yml", ".json")
"""Ends of names that `types_or: [yaml, json]` of .pre-commit-hooks.yaml stands for."""


def file_at(root: Path, commit: str, file: str) -> str | None:
    """The text of a file in a commit; None where it did not exist, or was not text."""
    try:
        return blob(root, commit, file).decode()
    except (UsageError, UnicodeDecodeError):
        return None


def ways_to(root: Path, files: Iterable[str]) -> frozenset[str]:
    """`files`, and for each that is reached through a symlink the link and what it leads to, as git names them."""
    ways: set[str] = set()
    real_root = os.path.realpath(root)
    for file in files:
        ways.add(file)
        real = os.path.relpath(os.path.realpath(root / file), real_root)
        if real != file:
            parts = file.split("/")
            ways.update("/".join(parts[:end]) for end in range(1, len(parts)))
            ways.add(real)
    return frozenset(ways)


def _commits(root: Path, revisions: tuple[str, str | None], asked: str) -> tuple[str, str, str | None]:
    """The commits that are checked out, that the first name stands for, and the second if there is one."""
    wanted = [name for name in ("HEAD", *revisions) if name is not None]
    for name in wanted:
        if name.startswith("-"):
            raise UsageError(f"{asked}: a revision does not begin with -")
    found = _known(root, wanted)
    if found is None:
        git(root, "rev-parse", "--git-dir")
        unknown = next((name for name in wanted if _known(root, [name]) is None), "")
        is_shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
        more = "; this clone is shallow (git fetch --unshallow)" if is_shallow else ""
        raise UsageError(f"{asked}: git knows no commit {unknown or '(empty)'}{more}")
    return found[0], found[1], found[2] if len(found) > 2 else None


def _known(root: Path, revisions: Sequence[str]) -> list[str] | None:
    """Ids of commits; None where git does not know one."""
    told = tried(root, "rev-parse", "--revs-only", *(f"{name}^{{commit}}" for name in revisions))
    ids = [] if told is None else told.split()
    return ids if len(ids) == len(revisions) else None


def _merge_base(root: Path, one: str, other: str, asked: str) -> str:
    try:
        return git(root, "merge-base", one, other).split()[0]
    except UsageError:
        message = f"{asked}: no commit is shared with it here; fetch the history (git fetch --unshallow)"
        raise UsageError(message) from None
