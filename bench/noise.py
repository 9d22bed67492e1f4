"""Measures how much runs of the trainer differ that should not: the noise that tools/bench-report is proved on.

    PYTHONPATH=. .tools/trainer/bin/python bench/noise.py --runs 60

Each run starts two ranks (a core each, one thread) with torchrun, twice: `python -m trainer.bench`, and twenty steps of
a small model. What ranks and run measured goes to tests/benchreport/noise.json, with the machine and its load.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainer import made_up

HOME = Path(__file__).resolve().parents[1]
OUT = HOME / "tests" / "benchreport" / "noise.json"
RANKS = 2
BYTES = 1 << 22
STEPS = 20


def torchrun(arguments: list[str], settings: dict[str, str]) -> list[dict[str, Any]]:
    """The JSON lines that a program prints, started once a rank."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def one_run(folder: Path) -> dict[str, Any]:
    """One run: each rank's product and memory, the all-reduce, and the steps."""
    sizes = ["--min-bytes", str(BYTES), "--max-bytes", str(BYTES), "--repeat", "15"]
    (bench,) = torchrun(["-m", "trainer.bench", "--collectives", "all_reduce", *sizes], {})
    settings = {
        "TRAINER_MODEL": "gpt-tiny",
        "TRAINER_PRECISION": "fp32",
        "TRAINER_SEQUENCE_LENGTH": "128",
        "TRAINER_MICRO_BATCH": "8",
        "TRAINER_GLOBAL_BATCH": str(8 * RANKS),
        "TRAINER_STEPS": str(STEPS),
        "TRAINER_WARMUP_STEPS": "2",
        "TRAINER_DATASET": str(folder / "data"),
        "TRAINER_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "TRAINER_METRICS_PORT": "0",
        "TRAINER_METRICS_EVERY_STEPS": "1",
    }
    lines = torchrun(["-m", "trainer"], settings)
    steps = sorted(line["step_seconds"] for line in lines if "step_seconds" in line)
    return {
        "product_tflops": [rank["product_tflops"] for rank in bench["ranks"]],
        "memory_gb_per_second": [rank["memory_gb_per_second"] for rank in bench["ranks"]],
        "bus_gb_per_second": bench["collectives"][0]["bus_gb_per_second"],
        "step_seconds": steps[len(steps) // 2],
        "load": round(os.getloadavg()[0], 2),
    }


def main() -> None:
    """Measures, and writes after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in processors if "model name" in line), "")
    about = {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
        "by": "bench/noise.py",
        "machine": f"{os.cpu_count()} cores, {model or platform.machine()}, a virtual machine that other work shares",
        "ranks": RANKS,
    }
    runs: list[dict[str, Any]] = []
    for number in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            made_up.text(Path(folder) / "data", documents=8)
            runs.append(one_run(Path(folder)))
        OUT.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f"    {json.dumps(run)}" for run in runs)
        OUT.write_text(f'{{\n  "about": {json.dumps(about)},\n  "runs": [\n{lines}\n  ]\n}}\n')
        print(f"{number + 1} of {given.runs}: {json.dumps(runs[-1])}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
