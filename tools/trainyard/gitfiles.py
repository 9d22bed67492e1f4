"""Git as a store of files: what a commit holds, without touching the working tree."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainyard.errors import Fault, UsageError

SECONDS = 120
"""Longest time that one git command may take."""


def git(root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
    """What git prints, stripped. UsageError with its words where it refuses."""
    return _run(root, arguments, environment, stdin).decode(errors="surrogateescape").strip()


def tried(root: Path, *arguments: str) -> str | None:
    """The same; None where git refuses."""
    try:
        return git(root, *arguments)
    except UsageError:
        return None


def extract(root: Path, commit: str, parts: Sequence[str], to: Path) -> None:
    """Write those of `parts`, which are folders, that a commit has below `to`; no link that leads out of `to`."""
    there = [part for part in parts if tried(root, "cat-file", "-e", f"{commit}:./{part}") is not None]
    if not there:
        return
    archive = _run(root, ("archive", "--format=tar", commit, "--", *there), None, b"")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(to, filter=_inside)


def _inside(member: tarfile.TarInfo, to: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, to)
    except tarfile.FilterError:
        return None


def _run(root: Path, arguments: Sequence[str], environment: Mapping[str, str] | None, stdin: bytes) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise Fault("git is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise Fault(f"git {arguments[0]} did not answer within {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"git {arguments[0]}: {lines[0].removeprefix('fatal: ')}")
    return done.stdout
