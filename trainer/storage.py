"""Checkpoints on storage: a folder each, whole from the moment it has its name.

DIR/RUN/step-000000500/         files of all ranks, and manifest.json with the digest of each and of itself
DIR/RUN/.step-000000500.ID      one that is being written, or was when its writer died
DIR/RUN/done.json               the run is over; what its last line said
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from trainer.errors import CheckpointError, StorageError

MANIFEST = "manifest.json"
DONE = "done.json"
STEP = re.compile(r"step-(\d{9})")


PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds between two tries to read what storage did not give."""

T = TypeVar("T")


class Damaged(Exception):
    """Why a checkpoint cannot be used."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint is; `samples` is the run's position, `files` maps names to bytes and SHA-256."""

    step: int
    samples: int
    updates: int
    model: str
    seed: int
    world_size: int
    parallelism: str
    numbers: Mapping[str, float]
    files: Mapping[str, tuple[int, str]]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


class Storage:
    """The folder of one run."""

    def __init__(self, root: Path, attempt: str = "") -> None:
        self.root = root
        self.attempt = attempt
        """Tells this start of the run from earlier ones, the same on all ranks."""
        self.damaged: set[int] = set()
        """Steps whose checkpoints were found damaged when this run began."""

    def prepare(self) -> None:
        """Makes the folder, removes what dead writers left, and shows that it can be written. For one rank."""
        probe = self.root / ".probe"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for stale in self.root.glob(".step-*"):
                shutil.rmtree(stale)
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise CheckpointError(f"{self.root} cannot be written: {error.strerror}") from error

    def part(self, step: int) -> Path:
        """Where the checkpoint of a step is written."""
        return self.root / f".step-{step:09}.{self.attempt}"

    def folder(self, step: int) -> Path:
        """Where it is once it is whole."""
        return self.root / f"step-{step:09}"

    def steps(self) -> list[int]:
        """Steps with a checkpoint, newest first. Raises StorageError."""
        try:
            names = read(self.root, os.listdir)
        except FileNotFoundError:
            return []
        return sorted((int(name[1]) for name in map(STEP.fullmatch, names) if name), reverse=True)

    def publish(self, manifest: Manifest) -> None:
        """Gives a written checkpoint its name, in one step that a crash leaves done or not done. Raises OSError."""
        part, folder = self.part(manifest.step), self.folder(manifest.step)
        write_synced(part / MANIFEST, asdict(manifest) | {"digest": manifest.digest})
        if folder.exists():  # a damaged one of the same step, which was skipped
            self._remove(folder)
            self.damaged.discard(manifest.step)
        part.rename(folder)
        sync(self.root)

    def manifest(self, step: int) -> Manifest:
        """The manifest of a checkpoint whose files are all there with the right size. Raises Damaged, and StorageError
        where storage does not say."""
        folder = self.folder(step)
        try:
            text = read(folder / MANIFEST, Path.read_bytes)
        except FileNotFoundError:
            raise Damaged(f"{MANIFEST} is missing: it was never finished") from None
        try:
            content = json.loads(text)
            digest = content.pop("digest")
            files = {name: (size, sha256) for name, (size, sha256) in content.pop("files").items()}
            manifest = Manifest(**content, files=files)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Damaged(f"{MANIFEST} cannot be read: {error}") from error
        if manifest.digest != digest:
            raise Damaged(f"{MANIFEST} was changed: its digest is not the one it names")
        for name, (size, _) in manifest.files.items():
            try:
                found = read(folder / name, Path.stat).st_size
            except FileNotFoundError as error:
                raise Damaged(f"{name}: {error.strerror}") from error
            if found != size:
                raise Damaged(f"{name} has {found} bytes, not {size}")
        return manifest

    def check_digests(self, manifest: Manifest, names: Iterable[str]) -> None:
        """Reads files whole. Raises Damaged where one is not what was written, StorageError where it cannot be read."""
        for name in names:
            try:
                found = read(self.folder(manifest.step) / name, digest_of)
            except FileNotFoundError as error:
                raise Damaged(f"{name}: {error.strerror}") from error
            if found != manifest.files[name]:
                raise Damaged(f"{name} was changed: its digest is not the one in {MANIFEST}")

    def retain(self, keep: int, keep_every: int) -> None:
        """Removes what is older than the `keep` newest whole checkpoints, but for multiples of `keep_every`.

        A damaged one does not count, however high its step is. Raises OSError and StorageError.
        """
        steps = self.steps()
        newest = list(islice((step for step in steps if self._is_whole(step)), keep))
        if len(newest) < keep:
            return
        for step in steps:
            if step < newest[-1] and not (keep_every and step % keep_every == 0):
                self._remove(self.folder(step))

    def _is_whole(self, step: int) -> bool:
        if step in self.damaged:
            return False
        try:
            self.manifest(step)
        except Damaged:
            return False
        return True

    def _remove(self, folder: Path) -> None:
        """A folder that is being removed has no name that is taken for a checkpoint's."""
        grave = folder.with_name(f".{folder.name}.removed-{self.attempt}")
        folder.rename(grave)
        shutil.rmtree(grave)

    def done(self) -> dict[str, Any] | None:
        """What the run's last line said, if it is over. Raises CheckpointError and StorageError."""
        path = self.root / DONE
        try:
            content = json.loads(read(path, Path.read_bytes))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise CheckpointError(f"{path} cannot be read: it holds no object")
        return content

    def mark_done(self, result: Mapping[str, Any]) -> None:
        """Marks the run as over. Raises CheckpointError."""
        part = self.root / f".{DONE}.{self.attempt}"
        try:
            write_synced(part, result)
            part.rename(self.root / DONE)
            sync(self.root)
        except OSError as error:
            raise CheckpointError(f"{self.root / DONE} cannot be written: {error.strerror}") from error


def read(path: Path, how: Callable[[Path], T]) -> T:
    """What `how` finds at a path, tried again where storage fails, as network storage does for seconds.

    Raises FileNotFoundError at once where there is nothing of that kind, StorageError once storage failed too often.
    """
    for pause in (*PAUSES, None):
        try:
            return how(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise FileNotFoundError(error.errno, error.strerror) from error
        except OSError as error:
            if pause is None:
                raise StorageError(
                    f"{path} cannot be read: {error.strerror}, {len(PAUSES) + 1} times in {sum(PAUSES):g} s: "
                    "start again once storage answers, or move this checkpoint away to go on from an older one"
                ) from error
            time.sleep(pause)
    raise AssertionError


def digest_of(path: Path) -> tuple[int, str]:
    """Bytes and SHA-256 of a file."""
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def write_synced(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON, and returns once it is on the disk with its name."""
    with path.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def sync(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
