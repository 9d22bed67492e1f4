"""trainyard.lock: which version a repository vendors, and the content of each file as it was shipped.

{
  "trainyard": "0.1.0",
  "files": {
    "base/...": "the SHA-256 of the file as 0.1.0 ships it, in hex"
  }
}
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.limits import FILE_BYTES
from trainyard.upgrade.shipped import PARTS

NAME = "trainyard.lock"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,63}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Record:
    """What a repository vendors."""

    version: str
    files: Mapping[str, str]
    """SHA-256 by name, as shipped."""

    def text(self) -> str:
        """The content of trainyard.lock; the same for the same record."""
        return json.dumps({"trainyard": self.version, "files": dict(sorted(self.files.items()))}, indent=2) + "\n"


def read(root: Path) -> Record | None:
    """The record of a repository; None where it has none. InputError where it is none that this version can read."""
    file = root / NAME
    try:
        about = os.lstat(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or 'unknown').lower()}", NAME) from None
    if not stat.S_ISREG(about.st_mode):
        raise InputError("is not a regular file", NAME)
    if about.st_size > FILE_BYTES:
        raise InputError(f"is larger than {FILE_BYTES >> 20} MiB", NAME)
    try:
        return _record(json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_once))
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or 'unknown').lower()}", NAME) from None
    except (ValueError, RecursionError) as error:
        said = str(error) if type(error) is ValueError else "it is not JSON"
        help = "restore it from Git; in a merge conflict, take either side; then run trainyard upgrade"
        raise InputError(f"is not what trainyard upgrade wrote: {said}", NAME, help=help) from None


def release(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version, which say what is older; those of a pre-release are its release's."""
    numbers = [int(number) for number in re.match(r"[0-9.]*", version)[0].split(".") if number]  # type: ignore[index]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _record(document: Any) -> Record:
    if not isinstance(document, dict) or document.keys() != {"trainyard", "files"}:
        raise ValueError("it has other keys than trainyard and files")
    version, files = document["trainyard"], document["files"]
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError("trainyard is not a version")
    if not isinstance(files, dict):
        raise ValueError("files is not a map")
    for name, digest in files.items():
        if not _is_vendored(name):
            raise ValueError(f"{name!a} is no file of {', '.join(PARTS)}")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"{name!a} has no SHA-256")
    return Record(version, files)


def _is_vendored(name: str) -> bool:
    """Whether a name lies below a vendored folder: a record of strangers has nothing else removed."""
    first, *rest = name.split("/")
    return first in PARTS and bool(rest) and all(part not in ("", ".", "..") and part.isprintable() for part in rest)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
