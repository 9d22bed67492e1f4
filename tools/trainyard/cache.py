"""Results of earlier runs, each under a hash of everything it depends on.

An entry is used only where every file that the run read still has the content it had, and the linter is the same. So an
entry of another branch can save work but cannot change a verdict. Losing, damaging or not being able to write an entry
costs time only. Entries are sealed against damage, not against their owner: a folder that another user owns or may
write is not used.
"""

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard import limits
from trainyard.home import BUILT, HOME, IS_INSTALLED, PACKAGE

ABSENT = "absent"
FOLDER = "folder"
LINK = "link:"
OTHER = "other"
"""Nothing that a run would have read: too large, a pipe, a device, or not readable."""

_CONTENT_LENGTH = 64
_COMMON = "common-"
_COMMONS = 256
"""Sets of files in common that are kept: some for each cluster, launcher and state of the bases."""

_LARGEST = 256 << 20
"""Bytes of an entry."""

_LEFT_AFTER = 3600
"""Seconds after which a file that was never finished belongs to a run that was killed."""

_TOOL = (PACKAGE, HOME / "schemas", BUILT / "bin", HOME / "requirements" / "lint.txt")


class Digests:
    """Content of the files under a root, each read once a run."""

    def __init__(self, root: Path, unsaved: Mapping[str, str] | None = None) -> None:
        """`unsaved` are texts that stand for those of files that are there, by path without symlinks."""
        self._root = root
        self._known: dict[str, str] = {}
        self._unsaved = {name: text_digest(text) for name, text in (unsaved or {}).items()}

    def of(self, file: str) -> str:
        """sha256 of a file in hex, `folder`, `absent`, `other`, or `link:` and where a symlink points."""
        known = self._known.get(file)
        if known is None:
            path = os.path.join(self._root, file)
            known = _digest(path)
            if self._unsaved and is_content(known):
                known = self._unsaved.get(os.path.relpath(os.path.realpath(path), os.path.realpath(self._root)), known)
            self._known[file] = known
        return known

    def listing(self, folder: str) -> str:
        """sha256 over the names below a folder."""
        top = os.path.join(self._root, folder)
        names = sorted(os.path.join(where, name) for where, _, files in os.walk(top) for name in files)
        return text_digest("\0".join(name.removeprefix(top) for name in names))


@dataclass(frozen=True, slots=True)
class Common:
    """What many results depend on alike, such as bases and clusters: kept, and compared with the files, once."""

    name: str
    """sha256 over the reads."""
    reads: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A result that still holds."""

    result: Any
    own: Mapping[str, str]
    """Each file that it alone depends on, with its digest."""
    common: Common

    @property
    def reads(self) -> Mapping[str, str]:
        """Each file that it depends on, with its digest."""
        return {**self.common.reads, **self.own}


class Cache:
    """Entries for one repository, in the user's cache folder."""

    def __init__(self, root: Path, digests: Digests) -> None:
        self._folder = _cache_home() / folder_of(root)
        self._is_own = all(_is_own(folder) for folder in (self._folder.parent, self._folder))
        self._is_tidy = False
        self._digests = digests
        self._tool = tool_fingerprint()
        self._commons: dict[str, Common | None] = {}

    def get(self, key: str) -> Any | None:
        """The result kept for `key`, or None where there is none that still holds."""
        entry = self.entry(key)
        return None if entry is None else entry.result

    def entry(self, key: str) -> Entry | None:
        """The result and what it depends on, or None where there is none that still holds."""
        if not self._is_own:
            return None
        try:
            seal, _, kept = _kept(self._file(key)).partition(b"\n")
            if hashlib.sha256(kept).hexdigest().encode() != seal:
                return None
            entry = json.loads(kept)
            if entry["tool"] != self._tool or entry["key"] != key or not self._holds(entry["reads"]):
                return None
            for listed, digest in entry["listings"].items():
                if self._digests.listing(listed) != digest:
                    return None
            common = self._common(entry["common"])
            return None if common is None else Entry(entry["result"], entry["reads"], common)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, reads: Mapping[str, str], listings: Iterable[str], result: Any) -> None:
        """Keep a result. `reads` names each file that it depends on, with the digest that was judged.

        What lies outside the folders `listings` is taken for what other results depend on too.
        """
        if not self._is_own:
            return
        folders = {folder: self._digests.listing(folder) for folder in listings}
        inside = tuple(f"{folder}/" for folder in folders)
        own = {file: digest for file, digest in reads.items() if f"{file}/".startswith(inside)}
        shared = {file: digest for file, digest in reads.items() if file not in own}
        common = json.dumps(sorted(shared.items()), separators=(",", ":")).encode()
        name = hashlib.sha256(common).hexdigest()
        entry = {
            "tool": self._tool,
            "key": key,
            "reads": own,
            "common": name,
            "listings": folders,
            "result": result,
        }
        kept = json.dumps(entry, separators=(",", ":")).encode()
        with suppress(OSError):
            if self._commons.get(name) is None:
                self._write(self._common_file(name), common)
                self._commons[name] = Common(name, shared)
                self._forget_old()
            self._write(self._file(key), hashlib.sha256(kept).hexdigest().encode() + b"\n" + kept)

    def _holds(self, reads: Mapping[str, str]) -> bool:
        of = self._digests.of
        return all(of(file) == digest for file, digest in reads.items())

    def _common(self, name: str) -> Common | None:
        """What is kept under a name, or None where the files are no longer so."""
        if name not in self._commons:
            self._commons[name] = None
            kept = _kept(self._common_file(name))
            reads = dict(json.loads(kept))
            if hashlib.sha256(kept).hexdigest() == name and self._holds(reads):
                self._commons[name] = Common(name, reads)
        return self._commons[name]

    def _write(self, file: Path, content: bytes) -> None:
        """Write a file whole or not at all."""
        temporary = self._folder / f".new-{os.getpid()}-{os.urandom(4).hex()}"
        self._make_folder()
        try:
            temporary.write_bytes(content)
            os.replace(temporary, file)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _forget_old(self) -> None:
        """Keep the newest of what results have in common; one that is missed is made again."""
        found = sorted(self._folder.glob(f"{_COMMON}*"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in found[_COMMONS:]:
            file.unlink(missing_ok=True)

    def _common_file(self, name: str) -> Path:
        return self._folder / f"{_COMMON}{name[:32]}.json"

    def _make_folder(self) -> None:
        """The folder, for its user alone, and without what runs that were killed left in it."""
        if self._is_tidy:
            return
        self._folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        for left in self._folder.glob(".new-*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - _LEFT_AFTER:
                    left.unlink()
        self._is_tidy = True

    def _file(self, key: str) -> Path:
        return self._folder / f"{text_digest(key)[:32]}.json"


def folder_of(root: Path) -> Path:
    """Where the results of a repository are kept, below the user's cache folder."""
    return Path("trainyard", text_digest(str(root))[:16])


def is_content(digest: str) -> bool:
    """True where it is the digest of a file's content, not a word for what is not a file."""
    return len(digest) == _CONTENT_LENGTH


def text_digest(text: str) -> str:
    """sha256 of a text in hex, as of a file that holds it."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def tool_fingerprint() -> str:
    """Changes with the linter's own code, schemas, programs and Python, and with the packages beside it."""
    beside = sorted(os.listdir(PACKAGE.parent)) if IS_INSTALLED else []
    digest = hashlib.sha256("\0".join([sys.version, *beside]).encode(errors="surrogateescape"))
    for part in _TOOL:
        for path in _files(str(part)):
            facts = os.stat(path)
            known = (path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)  # the last cannot be set
            digest.update("\0".join(map(str, (*known, ""))).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [os.path.join(where, name) for name in files]
    return sorted(found)


def _kept(file: Path) -> bytes:
    """What an entry holds. OSError where it is none: a link, a pipe, a device, or larger than any."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            raise OSError(f"{file} is no entry")
        with open(descriptor, "rb", closefd=False) as opened:
            return opened.read(facts.st_size)
    finally:
        os.close(descriptor)


def _is_own(folder: Path) -> bool:
    """Whether a folder is this user's, and no other may write into it. One that is not there yet will be."""
    try:
        facts = folder.stat()
    except OSError:
        return True
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _cache_home() -> Path:
    """Where users keep what can be made again; a place where nothing can be kept for a user without a home."""
    for place in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(place):
            return Path(place)
    return Path(os.devnull)


def _digest(path: str) -> str:
    try:
        if os.path.islink(path):
            return LINK + os.readlink(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return OTHER
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            return FOLDER
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limits.FILE_BYTES:
            return OTHER
        with open(descriptor, "rb", closefd=False) as opened:
            return hashlib.sha256(opened.read(limits.FILE_BYTES + 1)).hexdigest()
    except OSError:
        return OTHER
    finally:
        os.close(descriptor)
