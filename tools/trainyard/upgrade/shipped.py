"""What this version of Trainyard ships for a repository that vendors it."""

import hashlib
import posixpath
import re
from pathlib import Path

PARTS = ("base", "overlays", "schemas")
"""Folders that are vendored. Of schemas/, what editors look up: see `shipped`."""
EXAMPLES = ("clusters", "jobs")
"""Folders of examples, which belong to the repository once they are there."""

_OURS = "schemas/trainyard.dev"
_HEADER = re.compile(rb"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)


def shipped(home: Path) -> dict[str, Path]:
    """Every vendored file by its name in a repository, and where its content lies.

    These are base/ and overlays/ of `home`, the schemas that the first lines of their files name for editors, and the
    schemas of Trainyard's own kinds. The linter itself brings all schemas, and reads none of these.
    """
    found = {**_below(home, "base"), **_below(home, "overlays")}
    named = set(_below(home, _OURS))
    for name, file in found.items():
        for target in _HEADER.findall(file.read_bytes()):
            named.add(posixpath.normpath(posixpath.join(posixpath.dirname(name), target.decode())))
    return found | {name: home / name for name in sorted(named)}


def examples(home: Path) -> dict[str, Path]:
    """Every file of the example clusters and jobs, as `shipped`; none where a fork that was packaged has none."""
    return {name: file for part in EXAMPLES for name, file in _below(home, part).items()}


def digest(file: Path) -> str:
    """The SHA-256 of a file's content, in hex."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _below(home: Path, part: str) -> dict[str, Path]:
    return {file.relative_to(home).as_posix(): file for file in sorted((home / part).rglob("*")) if file.is_file()}
