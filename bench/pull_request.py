"""What a researcher's pull request waits for: one more job and an edited base, judged as the workflow does.

    .tools/test/bin/python bench/pull_request.py
    .tools/test/bin/python bench/pull_request.py --verify

Each command of .github/workflows/lint-jobs.yaml is run in a fresh clone whose branch adds a job: first with nothing
kept (cold), then as on a machine that has the results of the branch before (warm). Beside them stands what the stock
kustomize takes to build the same jobs, one after the other: the floor of whoever applies them. With --verify, a real
API server is asked about what changed too; it must have been built. Seconds are those of a clock, behind them those of
CPU. Compare ratios, not seconds of different machines. The set-up is not in them: a workflow keeps it by the hash of
what it is made from.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PYTHON = HOME / ".tools" / "lint" / "bin" / "python"
KUSTOMIZE = HOME / ".tools" / "bin" / "kustomize"
JOB, MORE = "jobs/research/llama-8b-sft", "jobs/research/one-more"
COMMANDS = {
    "lint, all jobs": ["lint-jobs"],
    "lint, what changed": ["lint-jobs", "--changed", "main"],
    "diff": ["diff-jobs", "main", "--format", "markdown=/dev/null"],
}


def branch(folder: Path) -> int:
    """A clone of this checkout's commit, on a branch with one more job. Gives the number of its jobs."""
    git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "advice.detachedHead=false")
    subprocess.run([*git, "clone", "--quiet", HOME, folder], check=True)
    subprocess.run([*git, "checkout", "--quiet", "-B", "main"], cwd=folder, check=True)
    subprocess.run([*git, "checkout", "--quiet", "-b", "one-more"], cwd=folder, check=True)
    (folder / MORE).mkdir()
    for file in (folder / JOB).iterdir():
        (folder / MORE / file.name).write_text(file.read_text().replace("llama-8b-sft", "one-more"))
    listing = [str(PYTHON), "-I", "-m", "trainyard", "list-jobs", "--root", str(folder)]
    subprocess.run(listing, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([*git, "add", "--all"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "one more job"], cwd=folder, check=True)
    return len(list(folder.glob("jobs/*/*/job.yaml")))


def measured(command: Sequence[str | Path], folder: Path, cache: Path) -> tuple[float, float]:
    """Seconds of a clock and of CPU that a command takes. SystemExit with what it said where it fails."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    before, began = os.times(), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - began, os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--verify", action="store_true", help="ask a real API server about what changed, too")
    options = parser.parse_args()
    commands = {name: [str(PYTHON), "-I", "-m", "trainyard", *words] for name, words in COMMANDS.items()}
    if options.verify:
        commands["verify, what changed"] = [str(PYTHON), "-I", "-m", "trainyard", "verify-jobs", MORE]
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place, "clone"), Path(place, "cache")
        jobs = branch(folder)
        built = ["sh", "-c", f'for job in jobs/*/*/; do "{KUSTOMIZE}" build "$job" || exit; done']
        floor = measured(built, folder, cache)
        print(f"{jobs} jobs, {os.cpu_count()} cores{'':19} wall s  of the floor   CPU s")
        print(f"{'kustomize build, all jobs (the floor)':<42} {floor[0]:6.2f}  {1:12.2f}  {floor[1]:6.2f}")
        total = {"cold": [0.0, 0.0], "warm": [0.0, 0.0]}
        for state in total:
            for name, command in commands.items():
                wall, cpu = measured(command, folder, cache)
                total[state] = [total[state][0] + wall, total[state][1] + cpu]
                print(f"{f'{name}, {state}':<42} {wall:6.2f}  {wall / floor[0]:12.2f}  {cpu:6.2f}")
        for state, (wall, cpu) in total.items():
            print(f"{f'all of it, {state}':<42} {wall:6.2f}  {wall / floor[0]:12.2f}  {cpu:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
