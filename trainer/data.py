"""Samples: memory-mapped tokens and folders of images, read ahead by threads."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from trainer import cache, index
from trainer.config import Config
from trainer.errors import DataError
from trainer.order import Order, Samples, positions_of
from trainer.presets import Decoder, Shape

IGNORED = -100
"""Target of a token that no loss is taken of."""

AHEAD = 3
"""Steps that are prepared ahead."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One pass: inputs and targets as the model takes them; `valid` counts the targets that a loss is taken of."""

    inputs: NDArray[np.int64] | NDArray[np.float32]
    targets: NDArray[np.int64]
    valid: int


class Dataset(Protocol):
    """Samples by number."""

    def __len__(self) -> int: ...

    def micro_batch(self, samples: Samples, positions: Samples) -> MicroBatch:
        """The samples of one pass; what is drawn at random for one depends on its position alone."""


class Tokens:
    """Windows of `length` tokens, one after the other, each with the token that follows as its last target.

    The last window of a file may be short: it is filled up, and no loss is taken of what was filled in.
    """

    def __init__(self, folder: Path, held: index.Index, length: int) -> None:
        self.length, self.padding = length, held.padding
        self.files = [np.memmap(folder / file.name, dtype=held.dtype, mode="r") for file in held.files if file.size]
        windows = [max(0, -(-(len(file) - 1) // length)) for file in self.files]
        self.ends = np.cumsum(windows, dtype=np.uint64)
        if not sum(windows):
            raise DataError(f"{folder}: no file holds two tokens")

    def __len__(self) -> int:
        return int(self.ends[-1])

    def micro_batch(self, samples: Samples, positions: Samples) -> MicroBatch:
        """inputs, targets: [samples, length]."""
        del positions
        inputs = np.zeros((len(samples), self.length), dtype=np.int64)
        targets = np.full((len(samples), self.length), IGNORED, dtype=np.int64)
        for row, sample in enumerate(samples):
            number = int(np.searchsorted(self.ends, sample, side="right"))
            first = int(sample - (self.ends[number - 1] if number else 0)) * self.length
            window = self.files[number][first : first + self.length + 1]
            inputs[row, : len(window) - 1], targets[row, : len(window) - 1] = window[:-1], window[1:]
        if self.padding is not None:
            targets[targets == self.padding] = IGNORED
        return MicroBatch(inputs, targets, int((targets != IGNORED).sum()))


class Images:
    """Images of class folders, scaled to the model's size, half of them mirrored."""

    def __init__(self, folder: Path, held: index.Index, size: int, seed: int) -> None:
        self.folder, self.files, self.size, self.seed = folder, held.files, size, seed

    def __len__(self) -> int:
        return len(self.files)

    def micro_batch(self, samples: Samples, positions: Samples) -> MicroBatch:
        """inputs: [samples, 3, size, size] from -1 to 1, targets: [samples]."""
        images = np.stack([self._image(int(s), int(p)) for s, p in zip(samples, positions, strict=True)])
        labels = np.array([self.files[int(sample)].label for sample in samples], dtype=np.int64)
        return MicroBatch(images, labels, len(samples))

    def _image(self, sample: int, position: int) -> NDArray[np.float32]:
        path = self.folder / self.files[sample].name
        try:
            with Image.open(path) as image:
                pixels = np.asarray(image.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR))
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"{path}: not an image: {error}") from error
        if np.random.default_rng((self.seed, position)).random() < 0.5:
            pixels = pixels[:, ::-1]
        return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / 127.5 - 1.0


def load(config: Config, shape: Shape) -> Dataset:
    """The dataset of a config, cached if asked, as the model takes it. Raises DataError where the two do not fit."""
    held = index.read(config.dataset)
    if isinstance(shape, Decoder):
        if held.kind != "tokens":
            raise DataError(f"{config.dataset} holds {held.kind}, and {config.model} reads tokens")
        if held.vocabulary > shape.vocabulary:
            raise DataError(
                f"{config.dataset} has a vocabulary of {held.vocabulary}, {config.model} one of {shape.vocabulary}"
            )
        return Tokens(cache.local_folder(config.dataset, held, config.data.cache), held, config.sequence_length)
    if held.kind != "images":
        raise DataError(f"{config.dataset} holds {held.kind}, and {config.model} reads images")
    if len(held.classes) > shape.classes:
        raise DataError(f"{config.dataset} has {len(held.classes)} classes, {config.model} tells {shape.classes} apart")
    return Images(cache.local_folder(config.dataset, held, config.data.cache), held, shape.image, config.seed)


@dataclass(frozen=True, slots=True)
class Share:
    """A rank's share of each step: `accumulation` passes of `micro` samples."""

    rank: int
    world: int
    micro: int
    accumulation: int

    @property
    def global_batch(self) -> int:
        return self.micro * self.accumulation * self.world


def steps(
    dataset: Dataset, seed: int, share: Share, position: int, end: int, workers: int
) -> Iterator[list[MicroBatch]]:
    """The passes of each step from `position` to before `end`, in samples; a step may span two epochs."""
    order = Order(len(dataset), seed)

    def prepared(start: int) -> list[MicroBatch]:
        positions = positions_of(share.rank, share.world, start, share.global_batch)
        samples = order.at(positions)
        rows = [slice(first, first + share.micro) for first in range(0, len(positions), share.micro)]
        return [dataset.micro_batch(samples[row], positions[row]) for row in rows]

    starts = range(position, end, share.global_batch)
    if workers == 0:
        yield from map(prepared, starts)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="data") as pool:
        ahead: deque[Future[list[MicroBatch]]] = deque()
        try:
            for start in starts:
                ahead.append(pool.submit(prepared, start))
                if len(ahead) > AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
