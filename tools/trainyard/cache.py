"""Results of earlier runs, each under a hash of everything it depends on.

An entry is used only where every file that the run read still has the content it had, and the linter is the same. So an
entry of another branch can save work but cannot change a verdict. Losing, damaging or not being able to write an entry
costs time only.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ABSENT = "absent"
FOLDER = "folder"
LINK = "link:"

_HOME = Path(__file__).resolve().parents[2]


class Digests:
    """Content of the files under a root, each read once a run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str] = {}

    def of(self, file: str) -> str:
        """sha256 of a file in hex, `folder`, `absent`, or `link:` and where a symlink points."""
        if (known := self._known.get(file)) is not None:
            return known
        try:
            if os.path.islink(self._root / file):
                return self._known.setdefault(file, LINK + os.readlink(self._root / file))
            with open(self._root / file, "rb") as opened:
                digest = hashlib.sha256(opened.read()).hexdigest()
        except IsADirectoryError:
            digest = FOLDER
        except OSError:
            digest = ABSENT
        self._known[file] = digest
        return digest

    def listing(self, folder: str) -> str:
        """sha256 over the names below a folder."""
        names = sorted(
            os.path.relpath(os.path.join(where, name), self._root / folder)
            for where, _, files in os.walk(self._root / folder)
            for name in files
        )
        return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()


class Cache:
    """Entries for one repository, in the user's cache folder."""

    def __init__(self, root: Path, digests: Digests, folder: Path | None = None) -> None:
        base = folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainyard"
        self._folder = base / hashlib.sha256(str(root).encode(errors="surrogateescape")).hexdigest()[:16]
        self._digests = digests
        self._tool = tool_fingerprint()

    def get(self, key: str) -> Any | None:
        """The result kept for `key`, or None where there is none that still holds."""
        try:
            entry = json.loads(self._file(key).read_bytes())
            if entry["tool"] != self._tool or entry["key"] != key:
                return None
            for file, digest in entry["reads"].items():
                if self._digests.of(file) != digest:
                    return None
            for listed, digest in entry["listings"].items():
                if self._digests.listing(listed) != digest:
                    return None
            return entry["result"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, reads: Mapping[str, str], listings: Iterable[str], result: Any) -> None:
        """Keep a result. `reads` names each file that it depends on, with the digest that was judged."""
        entry = {
            "tool": self._tool,
            "key": key,
            "reads": dict(reads),
            "listings": {folder: self._digests.listing(folder) for folder in listings},
            "result": result,
        }
        temporary = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix=".new-", delete=False) as temporary:
                json.dump(entry, temporary, separators=(",", ":"))
            os.replace(temporary.name, self._file(key))
        except OSError:
            if temporary is not None:
                Path(temporary.name).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"


def tool_fingerprint() -> str:
    """Changes with the linter's own code, schemas and programs."""
    digest = hashlib.sha256()
    for folder in ("tools/trainyard", "schemas", ".tools/bin"):
        for where, folders, files in os.walk(_HOME / folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                path = os.path.join(where, name)
                facts = os.stat(path)
                digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()
