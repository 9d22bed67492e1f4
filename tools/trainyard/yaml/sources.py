"""The files of a repository as one run reads them: each once, none from outside it."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from trainyard import limits
from trainyard.errors import InputError
from trainyard.yaml.mistakes import lines_of
from trainyard.yaml.nodes import Node, load_documents


class Sources:
    """Reads files under `root`, each once. Paths are relative to it, with forward slashes."""

    def __init__(self, root: Path, unsaved: Mapping[str, str] | None = None) -> None:
        """`unsaved` are texts that stand for those of files that are there, by path without symlinks."""
        self.root = root
        self.unsaved: Mapping[str, str] = unsaved or {}
        self._real_root = os.path.realpath(root)
        self._texts: dict[str, str | InputError] = {}
        self._lines: dict[str, list[str]] = {}
        self._documents: dict[str, tuple[list[Node], list[InputError]] | InputError] = {}
        """Documents, and the keys that stand twice in them."""
        self._real_folders: dict[str, str] = {}
        self.kept: dict[tuple[str, str], object] = {}
        """What other modules derive from files and want to keep as long as the files: by module and folder."""

    @property
    def files(self) -> frozenset[str]:
        """Every file that was read or tried so far."""
        return frozenset(self._texts)

    def text(self, file: str) -> str:
        """Text of a file. InputError: it is missing, too large, no plain file, not UTF-8, or outside the root."""
        found = self._texts.get(file)
        if found is None:
            try:
                found = self._read(file)
            except InputError as error:
                found = error
            self._texts[file] = found
        if isinstance(found, InputError):
            raise found
        return found

    def add(self, file: str, text: str) -> None:
        """Have a text that lies in no file under the name of one, such as standard input."""
        self._texts[file] = text

    def lines(self, file: str) -> list[str]:
        """Lines of a file without their ends; none where it cannot be read."""
        found = self._lines.get(file)
        if found is None:
            try:
                found = lines_of(self.text(file))
            except InputError:
                found = []
            self._lines[file] = found
        return found

    def documents(self, file: str) -> list[Node]:
        """YAML documents of a file. They are shared: copy a node before changing it.

        InputError for a file that cannot be read, or in which a key stands twice: kustomize refuses both.
        """
        documents, twice = self._read_documents(file)
        if twice:
            raise twice[0]
        return documents

    def manifests(self, file: str) -> list[Node]:
        """The same, but of a key that stands twice the last value counts: so kubectl reads plain manifests."""
        return self._read_documents(file)[0]

    def twice(self, file: str) -> list[InputError]:
        """Keys of a file that stand twice, in their order. InputError where it cannot be read."""
        return self._read_documents(file)[1]

    def _read_documents(self, file: str) -> tuple[list[Node], list[InputError]]:
        found = self._documents.get(file)
        if found is None:
            try:
                twice: list[InputError] = []
                found = load_documents(self.text(file), file, twice), twice
            except InputError as error:
                found = error
            self._documents[file] = found
        if isinstance(found, InputError):
            raise found
        return found

    def forget(self, folder: str) -> None:
        """Drop what was parsed of a folder and of files in it. Whoever needs it after all parses it again."""
        for file in [file for file in self._documents if file.startswith(f"{folder}/")]:
            del self._documents[file]
        for key in [key for key in self.kept if key[1] == folder or key[1].startswith(f"{folder}/")]:
            del self.kept[key]

    def is_file(self, file: str) -> bool:
        """True where a file of that name exists inside the root."""
        return os.path.isfile(os.path.join(self.root, file))

    def exists(self, path: str) -> bool:
        """True where there is anything of that name."""
        return os.path.exists(os.path.join(self.root, path))

    def is_folder(self, folder: str) -> bool:
        """True where a folder of that name exists."""
        return os.path.isdir(os.path.join(self.root, folder))

    def outside(self, path: str) -> bool:
        """True where a path, its symlinks followed, leaves the root."""
        real = self._real(os.path.join(self.root, path))
        return real != self._real_root and not real.startswith(self._real_root + os.sep)

    def _real(self, path: str) -> str:
        """`os.path.realpath`, which looks at every folder on the way: each is looked at once here."""
        folder, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir):
            return os.path.realpath(path)
        real = self._real_folders.get(folder)
        if real is None:
            real = self._real_folders[folder] = os.path.realpath(folder)
        real = os.path.join(real, name)
        return os.path.realpath(real) if os.path.islink(real) else real

    def _read(self, file: str) -> str:
        path = os.path.join(self.root, file)
        try:
            if self.outside(file):
                way = "through a symlink " if os.path.normpath(file) == file and not file.startswith("..") else ""
                raise InputError(f"file is {way}outside the repository", file)
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(_os_words(error), file) from None
        try:
            _check_plain(os.fstat(descriptor), file)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(limits.FILE_BYTES + 1)
        except OSError as error:
            raise InputError(_os_words(error), file) from None
        finally:
            os.close(descriptor)
        if self.unsaved and (text := self.unsaved.get(os.path.relpath(self._real(path), self._real_root))) is not None:
            data = text.encode()
        if len(data) > limits.FILE_BYTES:
            raise InputError(f"file grew beyond {limits.FILE_BYTES // 1024 // 1024} MiB while it was read", file)
        return decoded(data, file)


def decoded(data: bytes, file: str) -> str:
    """The text of a file. InputError, with its place, for bytes that are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        above = lines_of(data[: error.start].decode().removeprefix("\ufeff"))
        message = f"byte 0x{data[error.start]:02X} is not UTF-8 text"
        raise InputError(message, file, len(above), len(above[-1]) + 1) from None


def _check_plain(status: os.stat_result, file: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InputError("is a folder, not a file", file)
    if not stat.S_ISREG(status.st_mode):
        raise InputError("is not a plain file", file)
    if status.st_size > limits.FILE_BYTES:
        size, most = status.st_size / 1024 / 1024, limits.FILE_BYTES // 1024 // 1024
        raise InputError(f"file has {size:.1f} MiB, and at most {most} MiB are read", file)


def _os_words(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "file does not exist"
    if isinstance(error, PermissionError):
        return "no permission to read this file"
    if isinstance(error, NotADirectoryError):
        return "file does not exist: a part of its path is not a folder"
    return (error.strerror or "cannot be read").lower()
