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
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer.errors import CheckpointError

MANIFEST = "manifest.json"
DONE = "done.json"
STEP = re.compile(r"step-(\d{9})")


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
        """Steps with a checkpoint, newest first."""
        try:
            names = [STEP.fullmatch(path.name) for path in self.root.iterdir()]
        except FileNotFoundError:
            return []
        return sorted((int(name[1]) for name in names if name), reverse=True)

    def publish(self, manifest: Manifest) -> None:
        """Gives a written checkpoint its name, in one step that a crash leaves done or not done. Raises OSError."""
        part, folder = self.part(manifest.step), self.folder(manifest.step)
        write_synced(part / MANIFEST, asdict(manifest) | {"digest": manifest.digest})
        if folder.exists():  # a damaged one of the same step, which was skipped
            self._remove(folder)
        part.rename(folder)
        sync(self.root)

    def manifest(self, step: int) -> Manifest:
        """The manifest of a checkpoint whose files are all there with the right size. Raises Damaged."""
        folder = self.folder(step)
        try:
            content = json.loads((folder / MANIFEST).read_text())
            digest = content.pop("digest")
            files = {name: (size, sha256) for name, (size, sha256) in content.pop("files").items()}
            manifest = Manifest(**content, files=files)
        except FileNotFoundError:
            raise Damaged(f"{MANIFEST} is missing: it was never finished") from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(f"{MANIFEST} cannot be read: {error}") from error
        if manifest.digest != digest:
            raise Damaged(f"{MANIFEST} was changed: its digest is not the one it names")
        for name, (size, _) in manifest.files.items():
            try:
                found = (folder / name).stat().st_size
            except OSError as error:
                raise Damaged(f"{name}: {error.strerror}") from error
            if found != size:
                raise Damaged(f"{name} has {found} bytes, not {size}")
        return manifest

    def check_digests(self, manifest: Manifest, names: Iterable[str]) -> None:
        """Reads files whole. Raises Damaged where one is not what was written."""
        for name in names:
            try:
                found = digest_of(self.folder(manifest.step) / name)
            except OSError as error:
                raise Damaged(f"{name}: {error.strerror}") from error
            if found != manifest.files[name]:
                raise Damaged(f"{name} was changed: its digest is not the one in {MANIFEST}")

    def retain(self, keep: int, keep_every: int) -> None:
        """Removes all but the `keep` newest and those at multiples of `keep_every`. Raises OSError."""
        for step in self.steps()[keep:]:
            if not (keep_every and step % keep_every == 0):
                self._remove(self.folder(step))

    def _remove(self, folder: Path) -> None:
        """A folder that is being removed has no name that is taken for a checkpoint's."""
        grave = folder.with_name(f".{folder.name}.removed-{self.attempt}")
        folder.rename(grave)
        shutil.rmtree(grave)

    def done(self) -> dict[str, Any] | None:
        """What the run's last line said, if it is over."""
        try:
            content = json.loads((self.root / DONE).read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.root / DONE} cannot be read: {error}") from error
        return dict(content)

    def mark_done(self, result: Mapping[str, Any]) -> None:
        """Marks the run as over. Raises CheckpointError."""
        part = self.root / f".{DONE}.{self.attempt}"
        try:
            write_synced(part, result)
            part.rename(self.root / DONE)
            sync(self.root)
        except OSError as error:
            raise CheckpointError(f"{self.root / DONE} cannot be written: {error.strerror}") from error


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
