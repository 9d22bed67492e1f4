"""Which sample comes when. A position counts samples over all epochs and ranks; it alone says where a run stands."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.uint64]
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Order:
    """Every epoch of `size` samples in an order of its own, without a list of them: a Feistel network that walks until
    it is inside (Black and Rogaway 2002). Sample k of an epoch is known at once, whatever the size is."""

    size: int
    seed: int

    def at(self, positions: Samples) -> Samples:
        """The samples at positions, each from 0 to size - 1."""
        size = np.uint64(self.size)
        epochs, samples = positions // size, positions % size
        half = np.uint64(max(1, ((self.size - 1).bit_length() + 1) // 2))
        samples = self._shuffled(samples, epochs, half)
        while (outside := samples >= size).any():
            samples[outside] = self._shuffled(samples[outside], epochs[outside], half)
        return samples

    def _shuffled(self, samples: Samples, epochs: Samples, half: np.uint64) -> Samples:
        mask = (np.uint64(1) << half) - np.uint64(1)
        left, right = samples >> half, samples & mask
        for number in range(ROUNDS):
            salt = _mixed(epochs * np.uint64(ROUNDS) + np.uint64(number)) ^ _mixed(np.uint64(self.seed) + np.uint64(1))
            left, right = right, left ^ (_mixed(right ^ salt) & mask)
        return (left << half) | right


def _mixed(x: Samples | np.uint64) -> Samples:
    """splitmix64's finaliser (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def positions_of(rank: int, world: int, position: int, global_batch: int) -> Samples:
    """Positions that a rank takes of the step that starts at `position`: every world-th, as DistributedSampler does."""
    return np.arange(position + rank, position + global_batch, world, dtype=np.uint64)
