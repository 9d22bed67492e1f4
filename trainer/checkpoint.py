"""Saving while training goes on, and resuming from the newest whole checkpoint at any number of ranks."""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from trainer.checkpoint_pieces import Piece, Reads, State, Writes, misfits
from trainer.config import Config
from trainer.errors import CheckpointError, ConfigError, NoUsableCheckpointError, StorageError, TrainerError
from trainer.launch import Ranks
from trainer.parallel import Engine
from trainer.storage import Damaged, Manifest, Storage, digest_of, write_synced

IDLE, WRITING, WRITTEN, FAILED = range(4)
"""What a rank's part of a save is at."""

MEETING_SECONDS = 60.0
"""Least time in which the ranks of a save have to meet: a busy host takes seconds to connect them."""

Say = Callable[[str], None]
T = TypeVar("T")


class Saver:
    """Saves that run beside training. All ranks call each method at the same step; rank 0 publishes."""

    def __init__(self, storage: Storage, ranks: Ranks, config: Config, say: Say) -> None:
        self.storage, self.ranks, self.config, self.say = storage, ranks, config, say
        waits = timedelta(seconds=max(config.checkpoint.timeout_seconds, MEETING_SECONDS))
        self.group: Any = dist.new_group(backend="gloo", timeout=waits)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self.stage = Stage()
        self.writing: Future[None] | None = None
        self.manifest: Manifest | None = None
        self.started = 0.0
        self.late = False
        self.newest: int | None = None
        """Step of the checkpoint that this run has saved last, or was resumed from."""
        self.failures = 0
        """Failed saves in a row, on rank 0."""

    def begin(self, manifest: Manifest, state: State) -> None:
        """Copies the state and starts to write it."""
        self.manifest, self.started, self.late = manifest, time.monotonic(), False
        staged = self.stage.copy(state)
        self.writing = self.pool.submit(self._write, self.storage.part(manifest.step), staged)

    def _write(self, part: Path, staged: State) -> None:
        """Writes this rank's files and their digests."""
        self.stage.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer = FileSystemWriter(part, thread_count=1, overwrite=True)
            save(staged, storage_writer=writer, planner=Writes(), process_group=self.group)
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
        if self.ranks.rank == 0:
            try:
                self._publish()
            except (OSError, ValueError) as found:
                self._failed(_reason(found))
                return False
            self.failures = 0
            self._retain()
        self.newest = self._step
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

    def _retain(self) -> None:
        try:
            self.storage.retain(self.config.checkpoint.keep, self.config.checkpoint.keep_every)
        except (OSError, StorageError) as found:
            self.say(f"checkpoint: older ones could not be removed: {_reason(found)}")

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
    """Host memory that a state is copied into: taken once, and pinned where a GPU copies from.

    A GPU copies on a stream of its own, beside the next step's passes, which change none of it; only the weights' next
    change waits for the copy.
    """

    def __init__(self) -> None:
        self.held: dict[str, Tensor] = {}
        self.stream: torch.cuda.Stream | None = None

    @torch.no_grad()
    def copy(self, state: State) -> State:
        """The state with each piece's values in host memory; on a GPU they are there after `wait`."""
        for name, piece in state.items():
            if name not in self.held:
                self.held[name] = torch.empty(
                    piece.values.shape, dtype=piece.values.dtype, pin_memory=piece.values.is_cuda
                )
        with self._beside(next(iter(state.values())).values.device):
            for name, piece in state.items():
                self.held[name].copy_(piece.values, non_blocking=True)
        return {name: Piece(piece.size, piece.start, self.held[name]) for name, piece in state.items()}

    def _beside(self, device: torch.device) -> AbstractContextManager[object]:
        if device.type != "cuda":
            return nullcontext()
        self.stream = self.stream or torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        return torch.cuda.stream(self.stream)

    def before_change(self) -> None:
        """Has the device finish a copy before it goes on to change what is copied."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def wait(self) -> None:
        """Returns once the copy is in host memory."""
        if self.stream is not None:
            self.stream.synchronize()


def _read_digests(path: Path) -> dict[str, tuple[int, str]]:
    return {name: (size, sha256) for name, (size, sha256) in json.loads(path.read_text()).items()}


def _cause(error: BaseException) -> BaseException:
    """What went wrong on the first rank on which something did, without torch's wrapping."""
    if isinstance(error, CheckpointException) and error.failures:
        return next(iter(error.failures.values()))[0]
    return error


def _reason(error: BaseException) -> str:
    """One line for what went wrong."""
    error = _cause(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return (
        "No space left on device" if "file write failed" in text or "iostream error" in text else text.splitlines()[0]
    )


def resume(engine: Engine, storage: Storage, ranks: Ranks, config: Config, say: Say) -> Manifest | None:
    """Fills the engine from the newest whole checkpoint, and says why newer ones were skipped; None if there is none.

    Raises ConfigError where the checkpoint is another model's, NoUsableCheckpointError where there are checkpoints and
    none is whole, StorageError where storage does not give one, CheckpointError where it cannot be read after all.
    """
    steps = from_rank_0(ranks, storage.steps)
    for step in steps:
        found = _examined(storage, step, ranks)
        if isinstance(found, Damaged):
            storage.damaged.add(step)
            say(f"checkpoint: step {step} is skipped: {found}")
            continue
        for key in ("model", "seed"):
            if getattr(found, key) != getattr(config, key):
                raise ConfigError(
                    f"{storage.folder(step)} has {key} {getattr(found, key)}, this run {getattr(config, key)}: "
                    "give the run another name"
                )
        _read(engine, storage.folder(step), found)
        return found
    if steps and not config.checkpoint.start_over:
        raise NoUsableCheckpointError(
            f"{storage.root} has checkpoints of {len(steps)} steps, the newest {steps[0]}, and none is usable: "
            "mend one, or set checkpoint.start_over=true to start at step 1"
        )
    return None


def _examined(storage: Storage, step: int, ranks: Ranks) -> Manifest | Damaged:
    """The manifest of a whole checkpoint, or why it is not whole; the ranks share the reading. Raises StorageError."""

    def described() -> Manifest | Damaged:
        try:
            return storage.manifest(step)
        except Damaged as error:
            return error

    manifest = from_rank_0(ranks, described)
    if isinstance(manifest, Damaged):
        return manifest
    mine: Exception | None = None
    try:
        storage.check_digests(manifest, sorted(manifest.files)[ranks.rank :: ranks.world])
    except (Damaged, StorageError) as error:
        mine = error
    errors: list[Exception | None] = [None] * ranks.world
    dist.all_gather_object(errors, mine)
    for found in errors:
        if isinstance(found, StorageError):
            raise found
    return next((found for found in errors if isinstance(found, Damaged)), manifest)


def _read(engine: Engine, folder: Path, manifest: Manifest) -> None:
    def read(state: State) -> None:
        reader = FileSystemReader(folder)
        wrong = misfits(state, reader.read_metadata().state_dict_metadata)
        if wrong:
            more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise ConfigError(f"{folder} is not of this model: {'; '.join(wrong[:3])}{more}: give the run another name")
        load(state, storage_reader=reader, planner=Reads())

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.restore(read, manifest.updates)
    except (CheckpointException, OSError) as error:
        cause = _cause(error)
        kind = StorageError if isinstance(cause, OSError) else CheckpointError
        raise kind(f"{folder} cannot be read: {_reason(cause)}") from error
    engine.set_numbers(dict(manifest.numbers))


def from_rank_0(ranks: Ranks, ask: Callable[[], T]) -> T:
    """What rank 0 is answered, on all ranks; the error that it meets is raised on all of them."""
    answer: list[Any] = [None]
    if ranks.rank == 0:
        try:
            answer = [ask()]
        except TrainerError as error:
            answer = [error]
    dist.broadcast_object_list(answer, src=0)
    if isinstance(answer[0], TrainerError):
        raise answer[0]
    found: T = answer[0]
    return found


def manifest(
    config: Config, ranks: Ranks, step: int, samples: int, updates: int, numbers: Mapping[str, float]
) -> Manifest:
    """The manifest of a checkpoint that is to be written; its files are not known yet."""
    return Manifest(
        step, samples, updates, config.model, config.seed, ranks.world, config.parallelism, dict(numbers), {}
    )
