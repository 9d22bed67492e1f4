"""Runs and jobs for these tests, and snapshots of whole outputs."""

import contextlib
import io
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainyard.plan.command import main
from trainyard.plan.hardware import gpus
from trainyard.plan.run import Run
from trainyard.plan.shapes import shapes
from trainyard.plan.stacks import FSDP

HERE = Path(__file__).parent
HOME = HERE.parents[1]
RUNS = HOME / "schemas" / "hardware" / "published-runs.yaml"


@dataclass(frozen=True, slots=True)
class Said:
    """What plan-job printed."""

    code: int
    out: str
    errors: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def plan(*arguments: str | Path, cwd: Path = HOME) -> Said:
    """Run plan-job in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), errors.getvalue())


def hold(name: str, text: str) -> None:
    """An output is as recorded; UPDATE_SNAPSHOTS=1 records it."""
    file = HERE / "snapshots" / name
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        file.write_text(text)
    assert text == file.read_text()


def a_run(model: str = "llama-3-8b", gpu: str = "H100-SXM-80GB", **changes: Any) -> Run:
    """FSDP on four nodes of eight, one sample a pass, unless said otherwise."""
    known = gpus()[gpu]
    run = Run(
        shape=shapes()[model],
        gpu=known,
        gpus=32,
        gpus_per_node=8,
        network=400e9,
        transport="rdma",
        stack=FSDP,
        sharding="full",
        sequence=4096,
        micro=1,
        accumulation=1,
        reduce_bytes=4,
    )
    return replace(run, **changes)
