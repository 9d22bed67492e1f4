"""What verify-jobs costs on many jobs, and how long a control plane takes to have many kwok nodes ready.

    .tools/test/bin/python bench/verify.py
    .tools/test/bin/python bench/verify.py --jobs 100 1000 --nodes 1000

The jobs are those of bench/lint.py. verify-jobs starts an API server for each cluster that they land on, as it does for
everybody, applies its platform and asks it about each job. Nodes come to an API server of their own, where kwok plays
the kubelets. Seconds are of CPU, of all programs together, and wall seconds behind them. On Linux each program's
largest process is named with the memory that it held at most; files that it maps, as etcd does its own, count.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HOME), str(HOME / "tools")]

from bench.growth import measured  # noqa: E402  the repository's root comes first
from bench.lint import repository  # noqa: E402
from trainyard.controlplane.plane import running  # noqa: E402

SAMPLE_SECONDS = 0.2
SMALL_MB = 30
"""What holds less is not named."""


@contextmanager
def peaks() -> Iterator[dict[str, int]]:
    """MB that the largest process of each program held at most, by its name, of all that is started meanwhile."""
    found: dict[str, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            for process in _below(os.getpid()):
                with suppress(OSError):
                    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                    name, peak = status["Name"].strip(), int(status.get("VmHWM", "0 kB").split()[0]) // 1024
                    found[name] = max(found.get(name, 0), peak)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


def _below(pid: int) -> Iterator[Path]:
    """The folders in /proc of a process's children, theirs, and so on."""
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield Path("/proc", child)
                yield from _below(int(child))


def verified(jobs: int) -> str:
    """What verify-jobs takes for a number of jobs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "repository"
        folder.mkdir()
        repository(folder, jobs)
        with peaks() as held:
            cost = measured([HOME / "tools" / "verify-jobs"], folder, cache=Path(place) / "cache")
    each = cost.cpu / jobs * 1000
    largest = sorted(held.items(), key=lambda program: -program[1])
    programs = ", ".join(f"{name} {peak} MB" for name, peak in largest if peak >= SMALL_MB)
    return (
        f"verify-jobs on {jobs} jobs: {cost.cpu:.1f} ({cost.wall:.1f}) s, {each:.0f} ms of CPU a job\n"
        f"  largest process {cost.memory} MB; {programs}"
    )


def nodes(count: int) -> float:
    """Wall seconds from the first node that is created to the last that is ready."""
    with running("kwok") as plane:
        client = plane.client()
        started = time.perf_counter()
        for number in range(count):
            client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"node-{number:04d}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
                    "status": {"allocatable": {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": "8", "pods": "110"}},
                }
            )

        def ready() -> bool:
            conditions = (node["status"].get("conditions", []) for node in client.list("v1", "Node"))
            return all(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions)

        client.until(f"{count} nodes are ready", ready, 600)
        return time.perf_counter() - started


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 1000], metavar="N", help="default: 100 1000")
    parser.add_argument("--nodes", type=int, default=1000, metavar="N", help="default: 1000")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; CPU (wall) seconds")
    for jobs in options.jobs:
        print(verified(jobs), flush=True)
    print(f"{options.nodes} kwok nodes: ready {nodes(options.nodes):.1f} s after the first was created")


if __name__ == "__main__":
    main()
