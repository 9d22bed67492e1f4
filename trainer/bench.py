"""python -m trainer.bench [--collectives NAME,...] [--min-bytes N] [--max-bytes N] [--repeat N] [--out FILE]

Measures what training rests on, with any launcher and backend: collectives over sizes, and per rank a matrix product
and a memory copy. Rank 0 prints one JSON object; --out FILE writes it too.

Bus bandwidth is nccl-tests': algorithm bandwidth (bytes over time) times 2(n-1)/n for all_reduce, (n-1)/n for
all_gather, reduce_scatter and all_to_all, 1 for broadcast, so that it compares with the link whatever n is. Bytes are
those of the larger buffer of a rank, as there.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainer import group, launch
from trainer.errors import TrainerError

FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
}
"""Bus over algorithm bandwidth at n ranks (nccl-tests, doc/PERFORMANCE.md)."""

WARM_UP = 3
LARGEST = {"cuda": 1 << 30, "cpu": 1 << 22}


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured, and where."""

    ranks: launch.Ranks
    device: torch.device
    repeat: int

    def seconds(self, action: Callable[[], object], together: bool = True) -> list[float]:
        """Times of an action, after a few that do not count; `together` starts each on all ranks at once."""
        times = []
        for number in range(WARM_UP + self.repeat):
            if together:
                dist.barrier()
            self._wait()
            start = time.perf_counter()
            action()
            self._wait()
            if number >= WARM_UP:
                times.append(time.perf_counter() - start)
        return times

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def collective(self, name: str, size: int) -> dict[str, Any]:
        """One collective at one size; the time is the slowest rank's, run by run, and checked for its result."""
        world = self.ranks.world
        count = max(1, size // 4 // world) * world
        action, check = self._action(name, count)
        action()
        if not check():
            return {"collective": name, "bytes": count * 4, "correct": False}
        times = torch.tensor(self.seconds(action), dtype=torch.float64, device=self.device)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        seconds = statistics.median(times.tolist())
        bandwidth = count * 4 / seconds / 1e9
        return {
            "collective": name,
            "bytes": count * 4,
            "microseconds": round(seconds * 1e6, 1),
            "algorithm_gb_per_second": round(bandwidth, 4),
            "bus_gb_per_second": round(bandwidth * FACTORS[name](world), 4),
            "correct": True,
        }

    def _action(self, name: str, count: int) -> tuple[Callable[[], object], Callable[[], bool]]:
        """A collective over `count` floats, and whether its first result is right."""
        world, rank = self.ranks.world, self.ranks.rank
        whole = torch.full((count,), float(rank + 1), device=self.device)
        part = torch.full((count // world,), float(rank + 1), device=self.device)
        sums = world * (world + 1) / 2
        each = torch.arange(1.0, world + 1, device=self.device).repeat_interleave(count // world)
        match name:
            case "all_reduce":
                return lambda: dist.all_reduce(whole), lambda: bool((whole == sums).all())
            case "all_gather":
                return lambda: dist.all_gather_into_tensor(whole, part), lambda: torch.equal(whole, each)
            case "reduce_scatter":
                return lambda: dist.reduce_scatter_tensor(part, whole), lambda: bool((part == sums).all())
            case "broadcast":
                return lambda: dist.broadcast(whole, 0), lambda: bool((whole == 1.0).all())
            case _:
                got = torch.empty_like(whole)
                return lambda: dist.all_to_all_single(got, whole), lambda: torch.equal(got, each)

    def product(self) -> float:
        """Matrix product of this rank, TFLOP/s, in bf16 on a GPU and fp32 on a CPU."""
        size, dtype = (8192, torch.bfloat16) if self.device.type == "cuda" else (1024, torch.float32)
        left, right = (torch.randn(size, size, device=self.device, dtype=dtype) for _ in range(2))
        return 2 * size**3 / statistics.median(self.seconds(lambda: torch.mm(left, right), together=False)) / 1e12

    def memory(self) -> float:
        """Copy in this rank's memory, GB/s, bytes read and bytes written both counted."""
        count = 1 << (29 if self.device.type == "cuda" else 25)
        source = torch.rand(count, device=self.device)
        target: Tensor = torch.empty_like(source)
        return 2 * 4 * count / statistics.median(self.seconds(lambda: target.copy_(source), together=False)) / 1e9


def measure(bench: Bench, collectives: list[str], sizes: list[int]) -> dict[str, Any]:
    """Everything, as rank 0 prints it."""
    rows = [bench.collective(name, size) for name in collectives for size in sizes] if bench.ranks.world > 1 else []
    mine = {"rank": bench.ranks.rank, "host": platform.node()}
    mine |= {"product_tflops": round(bench.product(), 4), "memory_gb_per_second": round(bench.memory(), 2)}
    each: list[Any] = [None] * bench.ranks.world
    dist.all_gather_object(each, mine)
    cuda = bench.device.type == "cuda"
    return {
        "world_size": bench.ranks.world,
        "ranks_per_node": bench.ranks.local_world,
        "launcher": bench.ranks.launcher,
        "device": torch.cuda.get_device_name(bench.device) if cuda else platform.processor() or platform.machine(),
        "backend": "nccl" if cuda else "gloo",
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if cuda else None,
        "repeat": bench.repeat,
        "collectives": rows,
        "ranks": each,
    }


def sizes_between(low: int, high: int) -> list[int]:
    """Sizes from `low` to `high` bytes, each four times the last."""
    sizes = [low]
    while sizes[-1] * 4 <= high:
        sizes.append(sizes[-1] * 4)
    return sizes


def main() -> int:
    """The command line. Returns the exit code: 1 where a collective gave a wrong result."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collectives", default=",".join(FACTORS), help="comma between them (default %(default)s)")
    parser.add_argument("--min-bytes", type=int, default=1024, help="bytes (default %(default)s)")
    parser.add_argument("--max-bytes", type=int, help="bytes (default 1 GiB on GPUs, 4 MiB on CPUs)")
    parser.add_argument("--repeat", type=int, default=20, help="timed runs of each (default %(default)s)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--out", type=Path, help="file for the JSON object")
    given = parser.parse_args()
    names = given.collectives.split(",")
    for unknown in set(names) - set(FACTORS):
        parser.error(f"no collective {unknown}; there are {', '.join(FACTORS)}")
    try:
        ranks = launch.find()
        device = group.device_of(ranks, given.device)
        largest = given.max_bytes or LARGEST[device.type]
        with group.joined(ranks, device, timeout_seconds=600):
            found = measure(Bench(ranks, device, given.repeat), names, sizes_between(given.min_bytes, largest))
    except TrainerError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    if ranks.rank == 0:
        text = json.dumps(found)
        sys.stdout.write(text + "\n")
        if given.out:
            given.out.write_text(text + "\n")
    return 0 if all(row["correct"] for row in found["collectives"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
