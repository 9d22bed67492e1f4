"""A dataset's copy on the node's own disk: filled by one rank, checked by digest, published by one rename.

`python -m trainer.cache [CONFIG.yaml] [key=value ...]` fills it before a run, with the run's keys.
"""

import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

import fsspec

from trainer import index, sources
from trainer.errors import ConfigError, DataError, TrainerError


def local_folder(address: str, held: index.Index, cache: str) -> Path:
    """A local folder with the files of a dataset: the dataset itself, or the copy of it that the cache holds.

    Every rank calls this; one per node copies while the others wait for its lock. Raises DataError where a file is not
    what the index says, or the disk is full.
    """
    if not cache:
        if "://" in address:
            raise DataError(f"{address}: training reads local files: set data.cache to a folder on the node's disk")
        return _checked(Path(address), held)
    root = Path(cache)
    target = root / held.digest
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f".{held.digest}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                _fill(address, held, root, target)
    except OSError as error:
        raise DataError(f"cannot copy {address} to {cache}: {error.strerror or error}") from error
    return _checked(target, held)


def _fill(address: str, held: index.Index, root: Path, target: Path) -> None:
    """Copies all files under the lock; a copy that is cut off leaves a folder that the next one removes."""
    for stale in root.glob(f".{held.digest}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{held.digest}.part-", dir=root))
    try:
        filesystem, folder = fsspec.core.url_to_fs(address)
        for file in held.files:
            copy = part / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            filesystem.get_file(f"{folder.rstrip('/')}/{file.name}", str(copy))
            if file.sha256 and index.digest_of(copy) != file.sha256:
                raise DataError(f"{address}/{file.name}: its digest is not the one in {index.NAME}")
        index.write(part, held)
        os.sync()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _checked(folder: Path, held: index.Index) -> Path:
    for file in held.files:
        try:
            size = (folder / file.name).stat().st_size
        except OSError as error:
            raise DataError(f"{folder / file.name}: {error.strerror}") from error
        if size != file.size:
            raise DataError(f"{folder / file.name}: {size} bytes, but {index.NAME} says {file.size}")
    return folder


def main() -> int:
    """The command line. Returns the exit code."""
    try:
        config = sources.read(sys.argv[1:])
        if not config.data.cache:
            raise ConfigError("data.cache names no folder to fill")
        folder = local_folder(config.dataset, index.read(config.dataset), config.data.cache)
    except TrainerError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
