"""The command as people run it, over runs that are made up."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.benchreport.made import run
from tests.said import Said

HOME = Path(__file__).resolve().parents[2]
PYTHON: tuple[str | Path, ...] = (HOME / ".tools/report/bin/python", "-I")
"""What tools/bench-report runs, once it is set up."""
BASELINE = 12
"""Runs that are locked; those after them are judged."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder of runs."""

    folder: Path

    def __call__(self, *arguments: str) -> Said:
        command = [*PYTHON, "-m", "trainyard", "bench-report", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        return Said(done.returncode, done.stdout, done.stderr)

    def write(self, documents: Sequence[dict[str, Any]]) -> list[str]:
        """Files of runs; returns their names."""
        names = []
        for document in documents:
            names.append(f"{document['name']}.json")
            (self.folder / names[-1]).write_text(json.dumps(document))
        return names

    def locked(self, nodes: int, noise: float = 0.01) -> list[str]:
        """A locked baseline in baseline.json; returns the names of its runs."""
        files = self.write([run(number, nodes, noise=noise) for number in range(BASELINE)])
        assert self("lock", "gpu-east", *files, "--out", "baseline.json").code == 0
        return files

    def compare(self, *arguments: str) -> Said:
        return self("compare", "--baseline", "baseline.json", *arguments)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def python() -> Callable[[str], str]:
    """Runs a program with the Python that has scipy; returns what it prints."""

    def started(program: str) -> str:
        return subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, check=True, timeout=120).stdout

    return started
