"""Runs tools/rehearse-job as its users do, and reads what it says."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2]
TOOL = HOME / "tools" / "rehearse-job"


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
    done = subprocess.run(
        [TOOL, job, "--format", "json", *options], cwd=cwd, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.stdout.startswith("{"), done.stderr[-5000:]
    return Rehearsed(done.returncode, json.loads(done.stdout), done.stderr)


def said(rehearsed: Rehearsed) -> str:
    """What to show where an assertion fails."""
    return "\n".join([*rehearsed.findings, rehearsed.log[-8000:]])


def jobs() -> Sequence[str]:
    """Every job folder of this repository."""
    return sorted(str(path.parent.relative_to(HOME)) for path in HOME.glob("jobs/*/*/job.yaml"))
