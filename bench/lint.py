"""What lint-jobs costs, beside kustomize alone and the usual pipeline on the same jobs in the same run.

    .tools/test/bin/python bench/lint.py
    .tools/test/bin/python bench/lint.py --jobs 1 100 --plot growth.svg
    .tools/test/bin/python bench/lint.py --jobs 1000 --shards 10000

Beside lint-jobs stand kustomize's own library (tools/go/library, which uses it as its documentation does), our
renderer, which is built on it (tools/go/render, with Python to read its answers), the stock binary, the stock binary
piped into kubeconform, and checkov and flux-local where they are installed. The library and the renderer run as one
process a core, the stock binaries as one process a job, as many at a time as there are cores. Each run measures one
after the other, and the median counts. Seconds are of CPU, user and system, of a command and all that it starts,
since they hold on a busy machine too; wall seconds stand behind them. Compare ratios, not seconds of different
machines.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

from bench.growth import Cost, Row, measured, plot  # noqa: E402  the repository's root comes first

PROGRAMS = HOME / ".tools" / "bin"
PYTHON = HOME / ".tools" / "lint" / "bin" / "python"
STOCK_AT_MOST = 100
"""Jobs that the stock binary is timed on; beyond, its time grows in proportion and is not waited for."""
PATTERNS = ("llama-8b-sft", "gpt2-124m")
SHARD = 1000
"""Jobs of one shard."""


def repository(folder: Path, jobs: int) -> list[str]:
    """A copy of this repository's bases and clusters with generated jobs, listed for Flux; their folders."""
    for part in ("base", "overlays", "clusters"):
        shutil.copytree(HOME / part, folder / part)
    made = []
    for number in range(jobs):
        pattern = PATTERNS[number % 2]
        job = folder / "jobs" / "research" / f"{pattern}-{number}"
        shutil.copytree(HOME / "jobs" / "research" / pattern, job)
        file = job / "job.yaml"
        file.write_text(file.read_text().replace(f"name: {pattern}", f"name: {pattern}-{number}"))
        made.append(job.relative_to(folder).as_posix())
    listing = [str(PYTHON), "-I", "-m", "trainyard", "list-jobs", "--root", str(folder)]
    subprocess.run(listing, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return made


def built_library(to: Path) -> Path:
    """The program of tools/go/library, built as the renderer is."""
    program = to / "library"
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "./library"]
    subprocess.run(command, cwd=HOME / "tools/go", check=True)
    return program


def library(program: Path, folder: Path, jobs: Sequence[str]) -> Cost:
    """kustomize's library over all jobs, one process a core."""
    cores = os.cpu_count() or 1

    def part(number: int) -> Cost:
        return measured([program], folder, stdin="\n".join(jobs[number::cores]))

    with ThreadPoolExecutor(cores) as pool:
        costs = list(pool.map(part, range(min(cores, len(jobs)))))
    return Cost(max(cost.wall for cost in costs), sum(cost.cpu for cost in costs), max(cost.memory for cost in costs))


def renderer(folder: Path, jobs: Sequence[str]) -> Cost:
    """Our renderer over all jobs, one process a core."""
    work = "import sys; from pathlib import Path; from trainyard.kustomize.render import render\n"
    work += "errors = [each.error for each in render(Path('.'), sys.stdin.read().split()) if each.error]\n"
    return measured([PYTHON, "-I", "-c", f"{work}sys.exit(bool(errors))"], folder, stdin="\n".join(jobs))


def each_job(folder: Path, jobs: Sequence[str], script: str) -> Cost:
    """A shell script a job, as `$1`, with as many at a time as there are cores."""

    def one(job: str) -> Cost:
        return measured(["sh", "-c", script, "sh", job], folder)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        costs = list(pool.map(one, jobs))
    wall = sum(cost.wall for cost in costs) / (os.cpu_count() or 1)
    return Cost(wall, sum(cost.cpu for cost in costs), max(cost.memory for cost in costs))


def linter(folder: Path, cache: Path, *arguments: str) -> Cost:
    """One run of lint-jobs over the repository."""
    return measured([HOME / "tools" / "lint-jobs", *arguments], folder, cache=cache)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        max(cost.memory for cost in costs),
    )


def measure(jobs: int, runs: int) -> Row:
    """One row: in each run the library, the renderer, a cold and a warm lint one after the other."""
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "repository", Path(place) / "cache"
        folder.mkdir()
        names = repository(folder, jobs)
        program = built_library(Path(place))
        found: dict[str, list[Cost]] = {"library": [], "renderer": [], "cold": [], "warm": []}
        for _ in range(runs):
            shutil.rmtree(cache, ignore_errors=True)
            found["library"].append(library(program, folder, names))
            found["renderer"].append(renderer(folder, names))
            found["cold"].append(linter(folder, cache))
            found["warm"].append(linter(folder, cache))
        costs = {name: median(of) for name, of in found.items()}
        if jobs <= STOCK_AT_MOST:
            build = f"'{PROGRAMS}/kustomize' build \"$1\""
            schemas = " ".join(
                f"-schema-location '{HOME}/schemas/{place}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json'"
                for place in ("kubernetes/{{.Group}}", "{{.Group}}")
            )
            costs["kustomize"] = each_job(folder, names, f"{build} >/dev/null")
            costs["pipeline"] = each_job(folder, names, f"{build} | '{PROGRAMS}/kubeconform' -strict {schemas}")
            costs |= installed(folder, names)
        return Row(jobs, costs)


def installed(folder: Path, jobs: Sequence[str]) -> dict[str, Cost]:
    """Other linters of kustomizations, where the machine has them. Their findings do not count here."""
    found = {}
    if shutil.which("checkov"):
        script = 'checkov --framework kustomize --quiet --compact -d "$1" >/dev/null || true'
        found["checkov"] = each_job(folder, jobs, script)
    if shutil.which("flux-local"):
        found["flux-local"] = measured(["flux-local", "test", "--path", "clusters"], folder, fails=True)
    return found


def one_changed(runs: int) -> str:
    """What a commit waits for: one changed job among a hundred that were judged before."""
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "repository", Path(place) / "cache"
        folder.mkdir()
        names = repository(folder, 100)
        author = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for words in (["add", "--all"], [*author, "commit", "--quiet", "--message", "jobs"]):
            subprocess.run(["git", "-C", folder, *words], check=True)
        linter(folder, cache)
        start, render, lint = [], [], []
        for number in range(runs):
            with (folder / names[0] / "job.yaml").open("a") as out:
                out.write(f"# {number}\n")
            start.append(measured([PYTHON, "-c", "import yaml"], folder))
            render.append(measured([PROGRAMS / "render"], folder, stdin=names[0]))
            lint.append(linter(folder, cache, "--changed", "HEAD"))
        floor, alone, cost = median(start), median(render), median(lint)
        ratio = (cost.cpu - alone.cpu) / floor.cpu
        return (
            f"one changed job of 100: {cost.cpu:.2f} s CPU, {cost.wall:.2f} s wall; one render {alone.cpu:.2f} s, "
            f"python -c 'import yaml' {floor.cpu:.3f} s\n"
            f"  that is one render and {ratio:.1f} starts of Python (aim: 3)"
        )


def in_shards(jobs: int) -> str:
    """Memory of the first shard of a large repository."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "repository"
        folder.mkdir()
        repository(folder, jobs)
        cost = linter(folder, Path(place) / "cache", "--shard", f"1/{-(-jobs // SHARD)}")
        return f"{SHARD} of {jobs} jobs as a shard: {cost.memory} MB, {cost.cpu:.1f} s CPU"


def ratios(row: Row) -> str:
    """The promises as ratios."""
    library, renderer, cold, warm = (row.costs[name] for name in ("library", "renderer", "cold", "warm"))
    return (
        f"{row.jobs} jobs: cold is {cold.cpu / library.cpu:.2f} of the library by CPU, {cold.wall / library.wall:.2f} "
        f"by wall (aim: 1.3), and {cold.cpu / renderer.cpu:.2f} of the renderer by CPU; "
        f"warm is 1/{cold.cpu / warm.cpu:.0f} of cold (aim: 1/20); "
        f"largest process {cold.memory} MB (aim: 300)"
    )


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 1000], metavar="N", help="default: 1 100 1000")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts (default: 3)")
    parser.add_argument("--shards", type=int, metavar="N", help="also the memory of one shard of N jobs")
    parser.add_argument("--no-changed", action="store_true", help="leave out the commit of one changed job")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how the costs grow, as SVG")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} at the start; CPU (wall) seconds, median of {options.runs}")
    if not options.no_changed:
        print(one_changed(options.runs), flush=True)
    rows: list[Row] = []
    for jobs in options.jobs:
        rows.append(measure(jobs, options.runs))
        costs = rows[-1].costs
        print(f"{jobs} jobs: " + ", ".join(f"{name} {cost.cpu:.2f} ({cost.wall:.2f})" for name, cost in costs.items()))
        print(f"  {ratios(rows[-1])}", flush=True)
    if options.shards:
        print(in_shards(options.shards))
    if options.plot:
        options.plot.write_text(plot(rows))


if __name__ == "__main__":
    main()
