"""The batches and GPU counts that DeepSpeed's elasticity allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.catalogues.deepspeed import highly_composite
from trainyard.rules.deepspeed.configs import Config
from trainyard.workload.plain import mapping


@dataclass(frozen=True, slots=True)
class Elastic:
    """The section's numbers, defaults filled in."""

    most: int
    """max_train_batch_size"""
    micros: tuple[int, ...]
    least_gpus: int
    most_gpus: int
    prefer_larger: bool
    version: float
    model_parallel: int
    gpus_per_node: int


def enabled(config: Config) -> bool:
    """Whether the configuration is elastic."""
    return mapping(config.written("elasticity")).get("enabled") is True


_LARGEST_BATCH = 100_000_000
"""Beyond it, the batches that DeepSpeed would try are not worked out."""


def elastic(config: Config) -> Elastic | None:
    """The section, or None where a number is missing or of the wrong type."""
    section = mapping(config.written("elasticity"))
    micros, most = section.get("micro_batch_sizes"), section.get("max_train_batch_size")
    numbers = [
        section.get(name, other)
        for name, other in (("min_gpus", 1), ("max_gpus", 10000), ("model_parallel_size", 1), ("num_gpus_per_node", 1))
    ]
    version = section.get("version", 0.2)
    if not isinstance(micros, list) or not micros or not all(_positive(each) for each in (*micros, most, *numbers)):
        return None
    if version not in (0.1, 0.2):
        return None
    if max(most, *micros) > _LARGEST_BATCH:
        return None
    least, largest, model, node = numbers
    prefer = section.get("prefer_larger_batch", True) is not False
    return Elastic(int(most or 0), tuple(micros), least, largest, prefer, version, model, node)


def batch_and_sizes(numbers: Elastic, ranks: int) -> tuple[int, tuple[int, ...]]:
    """The global batch, and the numbers of data-parallel ranks that may share it.

    Version 0.1 asks for the batch with most divisors; 0.2 does so for nodes, and where the nodes at hand are none of
    them takes the largest batch that they can share. Source: deepspeed/elasticity/elasticity.py, 0.19.5.
    """
    if numbers.version == 0.1:
        return _most_divisible(numbers, numbers.most, numbers.least_gpus, numbers.most_gpus)
    per_node = numbers.gpus_per_node // numbers.model_parallel
    batch, sizes = _most_divisible(
        numbers,
        numbers.most // per_node,
        numbers.least_gpus // numbers.gpus_per_node or 1,
        numbers.most_gpus // numbers.gpus_per_node or numbers.most // per_node // min(numbers.micros),
    )
    found = tuple(size * per_node for size in sizes)
    if ranks // numbers.model_parallel in found:
        return batch * per_node, found
    here = ranks / numbers.gpus_per_node * per_node
    batches = [math.floor(numbers.most / (micro * here)) * micro * here for micro in numbers.micros]
    return int(max(batches) if numbers.prefer_larger else min(batches)), (int(here),)


def _most_divisible(numbers: Elastic, most: int, least_gpus: int, most_gpus: int) -> tuple[int, tuple[int, ...]]:
    bases = (*numbers.micros, math.lcm(*numbers.micros))
    batches = {base if base >= most else base * _largest_composite(most // base) for base in bases}
    best: tuple[int, tuple[int, ...]] = (min(numbers.micros), ())
    for batch in batches:
        sizes = _sharers(batch, numbers.micros, least_gpus, most_gpus)
        better = batch > best[0] if numbers.prefer_larger else batch < best[0]
        if len(sizes) > len(best[1]) or (len(sizes) == len(best[1]) and better):
            best = batch, sizes
    return best


def _largest_composite(bound: int) -> int:
    return max(number for number in highly_composite() if number <= max(bound, 1))


def _sharers(batch: int, micros: Sequence[int], least: int, most: int) -> tuple[int, ...]:
    """Numbers of GPUs that divide the micro-batches of a batch."""
    found = {
        size
        for micro in micros
        if batch % micro == 0
        for low in range(1, math.isqrt(batch // micro) + 1)
        if batch // micro % low == 0
        for size in (low, batch // micro // low)
        if least <= size <= most
    }
    return tuple(sorted(found))


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
