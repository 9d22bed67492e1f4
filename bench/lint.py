"""What lint-jobs costs over 1, 100 and 1,000 jobs, cold and warm, beside kustomize alone on the same jobs in one run.

    .tools/test/bin/python bench/lint.py
    .tools/test/bin/python bench/lint.py --jobs 1 100

Three floors stand beside it: the stock kustomize binary, one process a job, as many at a time as there are cores; its
library (the renderer that lint-jobs uses), one process a core; and starting Python with PyYAML. Times are wall seconds.
Every figure comes from this run, so compare ratios, not seconds of different machines.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PROGRAMS = HOME / ".tools" / "bin"
STOCK_AT_MOST = 100
"""Jobs that the stock binary is timed on; beyond, its time grows in proportion and is not waited for."""


def repository(folder: Path, jobs: int) -> list[str]:
    """A copy of this repository's bases and clusters with generated jobs, and their folders."""
    for part in ("base", "overlays", "clusters"):
        shutil.copytree(HOME / part, folder / part)
    made = []
    for number in range(jobs):
        pattern = ("llama-8b-sft", "gpt2-124m")[number % 2]
        job = folder / "jobs" / "research" / f"{pattern}-{number}"
        shutil.copytree(HOME / "jobs" / "research" / pattern, job)
        file = job / "job.yaml"
        file.write_text(file.read_text().replace(f"name: {pattern}", f"name: {pattern}-{number}"))
        made.append(job.relative_to(folder).as_posix())
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return made


def timed(work: Callable[[], None], runs: int) -> float:
    """Median wall seconds of `work`."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[len(seconds) // 2]


def stock(folder: Path, jobs: Sequence[str]) -> None:
    """`kustomize build` of each job, one process a job, a core each."""

    def build(job: str) -> None:
        subprocess.run([PROGRAMS / "kustomize", "build", job], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, jobs))


def library(folder: Path, jobs: Sequence[str]) -> None:
    """The renderer over all jobs, one process a core."""
    sys.path.insert(0, str(HOME / "tools"))
    from trainyard.render import render

    for rendering in render(folder, jobs):
        if rendering.error:
            raise SystemExit(f"{rendering.folder}: {rendering.error}")


def linter(folder: Path, cache: Path) -> None:
    """One run of lint-jobs over the repository."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([HOME / "tools" / "lint-jobs"], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def measure(jobs: int, runs: int) -> None:
    """One row."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "repository"
        folder.mkdir()
        names = repository(folder, jobs)
        cache = Path(place) / "cache"

        def cold() -> None:
            shutil.rmtree(cache, ignore_errors=True)
            linter(folder, cache)

        library_seconds = timed(lambda: library(folder, names), runs)
        cold_seconds = timed(cold, runs)
        warm_seconds = timed(lambda: linter(folder, cache), runs)
        stock_text = "-"
        if jobs <= STOCK_AT_MOST:
            stock_text = f"{timed(lambda: stock(folder, names), 1):.2f}"
        print(
            f"{jobs:>6} {stock_text:>10} {library_seconds:>10.2f} {cold_seconds:>10.2f} {warm_seconds:>10.2f}"
            f" {cold_seconds / library_seconds:>13.2f} {warm_seconds / cold_seconds:>10.3f}",
            flush=True,
        )


def start_python() -> None:
    """The floor: what an interpreter and one import cost."""
    subprocess.run([sys.executable, "-c", "import yaml"], check=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 1000], metavar="N", help="default: 1 100 1000")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts (default: 3)")
    options = parser.parse_args()
    floor = timed(start_python, 5)
    print(f"python -c 'import yaml': {floor:.3f} s; {os.cpu_count()} cores; wall seconds, median of {options.runs}")
    heads = ("kustomize", "library", "lint cold", "lint warm")
    print(f"{'jobs':>6} " + " ".join(f"{head:>10}" for head in heads) + f" {'cold/library':>13} {'warm/cold':>10}")
    for jobs in options.jobs:
        measure(jobs, options.runs)


if __name__ == "__main__":
    main()
