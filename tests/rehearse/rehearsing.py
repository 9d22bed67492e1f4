"""Runs tools/rehearse-job as its users do, and reads what it says."""

import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HOME = Path(__file__).resolve().parents[2]
TOOL = HOME / "tools" / "rehearse-job"
AT_ONCE = max(2, os.cpu_count() or 1)
"""Rehearsals that share this machine, of any pytest process: Ray gives a node 30 s to start, whatever one sets."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How a rehearsal ended."""

    code: int
    document: dict[str, Any]
    log: str

    @property
    def findings(self) -> list[str]:
        """Rule and message of each finding, with its help."""
        return [f"{each['rule']} {each['message']} ({each['help']})" for each in self.document["findings"]]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The run, and the one that was started again."""
        runs: list[dict[str, Any]] = self.document["rehearsal"]["runs"]
        return runs


def rehearse(job: str | Path, *options: str, cwd: Path = HOME) -> Rehearsed:
    """Rehearse a job and read its JSON; the log is what a failing test shows."""
    command = [TOOL, job, "--format", "json", *options]
    with _a_place_on_the_machine():
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout.startswith("{"), done.stderr[-5000:]
    return Rehearsed(done.returncode, json.loads(done.stdout), done.stderr)


@contextmanager
def _a_place_on_the_machine() -> Iterator[None]:
    """One of the places, until the block ends; a lock is free again when its process is gone."""
    paths = [Path(tempfile.gettempdir()) / f"trainyard-tests-rehearse-{number}" for number in range(AT_ONCE)]
    files = [path.open("a") for path in paths]
    try:
        while not any(map(_taken, files)):
            time.sleep(0.2)
        yield
    finally:
        for file in files:
            file.close()


def _taken(file: IO[str]) -> bool:
    """Whether the lock of a file could be had."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def said(rehearsed: Rehearsed) -> str:
    """What to show where an assertion fails."""
    return "\n".join([*rehearsed.findings, rehearsed.log[-8000:]])


def jobs() -> Sequence[str]:
    """Every job folder of this repository."""
    return sorted(str(path.parent.relative_to(HOME)) for path in HOME.glob("jobs/*/*/job.yaml"))
