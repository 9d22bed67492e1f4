"""What git knows of a repository. It runs no hook and asks nobody, and the working tree stays as it is."""

import os
import posixpath
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainyard.errors import UsageError

SECONDS = 120
"""Longest time that one git command may take."""


def git(root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
    """What git prints, stripped. UsageError with its words where it refuses, and where there is none."""
    return _run(root, arguments, environment, stdin).decode(errors="surrogateescape").strip()


def names(root: Path, *arguments: str) -> frozenset[str]:
    """The names that git prints with -z."""
    return frozenset(os.fsdecode(name) for name in _run(root, arguments, None, b"").split(b"\0") if name)


def blob(root: Path, commit: str, file: str) -> bytes:
    """What a commit has in a file, as it is stored. UsageError where it has none of that name."""
    return _run(root, ("cat-file", "blob", f"{commit}:./{file}"), None, b"")


def tried(root: Path, *arguments: str) -> str | None:
    """As `git`; None where git refuses, or there is none."""
    try:
        return git(root, *arguments)
    except UsageError:
        return None


def extract(root: Path, commit: str, parts: Sequence[str], to: Path) -> None:
    """Write those of `parts`, which are folders, that a commit has below `to`; no link that leads out of `to`.

    Files are as they are stored, whatever a .gitattributes says of them: that is what Flux applies.
    """
    listed = _run(root, ("ls-tree", "-r", "-z", commit, "--", *parts), None, b"").split(b"\0")
    entries = []
    for about, _, name in (each.partition(b"\t") for each in listed if each):
        mode, kind, id = about.split(b" ")
        entries.append(_Entry(mode, kind, id, name))
    blobs = [entry for entry in entries if entry.kind == b"blob"]
    contents = _contents(root, [entry.id for entry in blobs])
    for entry, content in zip(blobs, contents, strict=True):
        file = to / os.fsdecode(entry.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode != _LINK:
            file.write_bytes(content)
        elif _stays_inside(entry.name, content):
            file.symlink_to(os.fsdecode(content))


class _Entry(NamedTuple):
    """A line of `git ls-tree`."""

    mode: bytes
    kind: bytes
    id: bytes
    name: bytes


_LINK = b"120000"


def _stays_inside(link: bytes, target: bytes) -> bool:
    way = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
    return not posixpath.isabs(target) and way != b".." and not way.startswith(b"../")


def _contents(root: Path, ids: Sequence[bytes]) -> Iterator[bytes]:
    """The contents of blobs, in their order."""
    answer = memoryview(_run(root, ("cat-file", "--batch"), None, b"\n".join(ids)))
    start = 0
    for _ in ids:
        end = bytes(answer[start : start + _HEADER]).index(b"\n") + start
        size = int(bytes(answer[start:end]).split(b" ")[2])
        yield bytes(answer[end + 1 : end + 1 + size])
        start = end + 1 + size + 1


_HEADER = 128
"""More bytes than `id blob size` takes."""


def _run(root: Path, arguments: Sequence[str], environment: Mapping[str, str] | None, stdin: bytes) -> bytes:
    try:
        # Even `git diff` calls a hook, post-index-change, where a file has another time than git noted.
        done = subprocess.run(
            ["git", "-C", str(root), "-c", f"core.hooksPath={os.devnull}", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise UsageError("git is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} did not answer within {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"git {arguments[0]}: {lines[0].removeprefix('fatal: ')}")
    return done.stdout
