"""Runs and jobs for these tests, and snapshots of whole outputs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import recorded
from tests.said import Said, said
from trainyard.plan.command import main
from trainyard.plan.hardware import gpus
from trainyard.plan.run import Run
from trainyard.plan.shapes import shapes
from trainyard.plan.stacks import FSDP

HERE = Path(__file__).parent
HOME = HERE.parents[1]
RUNS = HOME / "schemas" / "hardware" / "published-runs.yaml"


def plan(*arguments: str | Path, cwd: Path = HOME) -> Said:
    """Run plan-job in this process."""
    return said(main, *arguments, cwd=cwd)


def hold(name: str, text: str) -> None:
    """An output is as recorded in snapshots/."""
    recorded.hold(HERE / "snapshots" / name, text)


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
