"""Saving while training goes on, and resuming from the newest whole checkpoint at any number of ranks."""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from trainer.config import Config
from trainer.errors import CheckpointError, ConfigError
from trainer.launch import Ranks
from trainer.parallel import Engine, State
from trainer.storage import Damaged, Manifest, Storage, digest_of, write_synced

IDLE, WRITING, WRITTEN, FAILED = range(4)
"""What a rank's part of a save is at."""

Say = Callable[[str], None]
T = TypeVar("T")


class Saver:
    """Saves that run beside training. All ranks call each method at the same step; rank 0 publishes."""

    def __init__(self, storage: Storage, ranks: Ranks, config: Config, say: Say) -> None:
        self.storage, self.ranks, self.config, self.say = storage, ranks, config, say
        self.group: Any = dist.new_group(backend="gloo")
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self.stage = Stage()
        self.writing: Future[None] | None = None
        self.manifest: Manifest | None = None
        self.started = 0.0
        self.late = False
        self.failures = 0
        """Failed saves in a row, on rank 0."""

    def begin(self, manifest: Manifest, state: State) -> None:
        """Copies the state and starts to write it."""
        self.manifest, self.started, self.late = manifest, time.monotonic(), False
        staged = self.stage.copy(state)
        self.writing = self.pool.submit(self._write, self.storage.part(manifest.step), staged)

    def _write(self, part: Path, staged: State) -> None:
        """Writes this rank's files and their digests."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer = FileSystemWriter(part, thread_count=1, overwrite=True)
            save(staged, storage_writer=writer, process_group=self.group)
        names = [path.name for path in part.glob(f"__{self.ranks.rank}_*")]
        names += [".metadata"] if self.ranks.rank == 0 else []
        write_synced(part / self._digests(self.ranks.rank), {name: digest_of(part / name) for name in names})

    @staticmethod
    def _digests(rank: int) -> str:
        return f"digests-{rank:05}.json"

    def status(self) -> int:
        """What this rank's part is at; the loop gathers it from all ranks."""
        if self.writing is None:
            return IDLE
        if not self.writing.done():
            self._tell_if_late()
            return WRITING
        return FAILED if self.writing.exception() else WRITTEN

    def _tell_if_late(self) -> None:
        limit = self.config.checkpoint.timeout_seconds
        if self.ranks.rank == 0 and not self.late and time.monotonic() - self.started > limit:
            self.late = True
            self.failures += 1
            self.say(
                f"checkpoint: storage is slow: step {self._step} is not written after {limit:g} s; training goes on"
            )

    @property
    def _step(self) -> int:
        return self.manifest.step if self.manifest else 0

    def conclude(self, statuses: list[int]) -> bool | None:
        """Ends a save that all ranks are through with: True where it is on storage, None while one is still writing."""
        if any(status in (IDLE, WRITING) for status in statuses):
            return None
        assert self.writing is not None
        error, self.writing = self.writing.exception(), None
        if FAILED in statuses:
            self._failed(_reason(error) if error else "another rank could not write its part")
            return False
        if self.ranks.rank != 0:
            return True
        try:
            self._publish()
        except (OSError, ValueError) as found:
            self._failed(_reason(found))
            return False
        self.failures = 0
        return True

    def _publish(self) -> None:
        assert self.manifest is not None
        part = self.storage.part(self._step)
        files: dict[str, tuple[int, str]] = {}
        for rank in range(self.ranks.world):
            path = part / self._digests(rank)
            files |= _read_digests(path)
            path.unlink()
        fields = {name: getattr(self.manifest, name) for name in Manifest.__dataclass_fields__}
        self.storage.publish(Manifest(**fields | {"files": files}))
        self.storage.retain(self.config.checkpoint.keep, self.config.checkpoint.keep_every)

    def _failed(self, reason: str) -> None:
        self.failures += 0 if self.late else 1
        if self.ranks.rank == 0:
            kept = next((f"step {step}" for step in self.storage.steps()), "none yet")
            self.say(f"checkpoint: step {self._step} was not saved: {reason}; last good one: {kept}")

    def finish(self) -> bool | None:
        """Waits for the save that is under way; None where there is none."""
        if self.writing is None:
            return None
        try:
            self.writing.exception(timeout=self.config.checkpoint.timeout_seconds)
        except TimeoutError:
            self._tell_if_late()
            raise CheckpointError(f"storage is slow: step {self._step} is not written in time") from None
        statuses: list[int] = [0] * self.ranks.world
        dist.all_gather_object(statuses, self.status(), group=self.group)
        outcome = [self.conclude(statuses)]
        dist.broadcast_object_list(outcome, src=0, group=self.group)
        return outcome[0]

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


class Stage:
    """Host memory that a state is copied into: taken once, pinned where a GPU copies from."""

    def __init__(self) -> None:
        self.held: State = {}

    @torch.no_grad()
    def copy(self, state: State) -> State:
        staged: State = {}
        for name, tensor in state.items():
            local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            if name not in self.held:
                self.held[name] = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.is_cuda)
            self.held[name].copy_(local, non_blocking=True)
            staged[name] = _like(tensor, self.held[name])
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return staged


def _like(tensor: Tensor, local: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor):
        return local
    return DTensor.from_local(
        local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def _read_digests(path: Path) -> dict[str, tuple[int, str]]:
    return {name: (size, sha256) for name, (size, sha256) in json.loads(path.read_text()).items()}


def _reason(error: BaseException) -> str:
    """One line for what went wrong, without torch's wrapping."""
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return (
        "No space left on device" if "file write failed" in text or "iostream error" in text else text.splitlines()[0]
    )


def resume(engine: Engine, storage: Storage, ranks: Ranks, config: Config, say: Say) -> Manifest | None:
    """Fills the engine from the newest whole checkpoint, and says why newer ones were skipped.

    Raises ConfigError where the checkpoint is another model's, CheckpointError where it cannot be read after all.
    """
    steps = from_rank_0(storage.steps() if ranks.rank == 0 else [])
    for step in steps:
        manifest, reason = _examined(storage, step, ranks)
        if manifest is None:
            say(f"checkpoint: step {step} is skipped: {reason}")
            continue
        for key in ("model", "seed"):
            if getattr(manifest, key) != getattr(config, key):
                raise ConfigError(
                    f"{storage.folder(step)} has {key} {getattr(manifest, key)}, this run {getattr(config, key)}: "
                    "give the run another name"
                )
        _read(engine, storage.folder(step), manifest)
        return manifest
    return None


def _examined(storage: Storage, step: int, ranks: Ranks) -> tuple[Manifest | None, str]:
    """The manifest of a whole checkpoint, or why it is not whole; the ranks share the reading."""
    found: tuple[Manifest | None, str] = (None, "")
    if ranks.rank == 0:
        try:
            found = storage.manifest(step), ""
        except Damaged as error:
            found = None, str(error)
    manifest, reason = from_rank_0(found)
    if manifest is None:
        return None, reason
    mine = ""
    try:
        storage.check_digests(manifest, sorted(manifest.files)[ranks.rank :: ranks.world])
    except Damaged as error:
        mine = str(error)
    reasons = [""] * ranks.world
    dist.all_gather_object(reasons, mine)
    reason = next((reason for reason in reasons if reason), "")
    return (None, reason) if reason else (manifest, "")


def _read(engine: Engine, folder: Path, manifest: Manifest) -> None:
    def read(state: State) -> None:
        load(state, storage_reader=FileSystemReader(folder))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.restore(read, manifest.updates)
    except (CheckpointException, OSError) as error:
        raise CheckpointError(f"{folder} cannot be read: {_reason(error)}") from error
    engine.set_numbers(dict(manifest.numbers))


def from_rank_0(value: T) -> T:
    """What rank 0 has, on all ranks."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def manifest(
    config: Config, ranks: Ranks, step: int, samples: int, updates: int, numbers: Mapping[str, float]
) -> Manifest:
    """The manifest of a checkpoint that is to be written; its files are not known yet."""
    return Manifest(
        step, samples, updates, config.model, config.seed, ranks.world, config.parallelism, dict(numbers), {}
    )
