"""torchrun's elastic mode: the world shrinks and grows, and the global batch stays."""

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.trainer.conftest import Trainer, finished, free_port, kill, torchrun, until
from tests.trainer.test_parallel import TOLERANCE

pytestmark = pytest.mark.torch

ELASTIC = ("min_nodes=1", "nodes=4")


def test_killed_rank_costs_the_steps_since_the_last_checkpoint(train: Trainer) -> None:
    keys = ["run=restarted", *ELASTIC, "steps=300", "checkpoint.every_steps=10"]
    whole = train("run=whole", *keys[1:])
    launcher = torchrun(2, "--max-restarts=3", "--monitor-interval=0.1")
    process = train.launch(launcher, *keys, ranks=2)
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(25)]
    ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()

    subprocess.run(["kill", "-9", ranks[-1]], check=True)
    run = finished(process)

    assert run.code == 0, run.errors
    assert run.result["resumed_from"] >= 20
    curve = {line["step"]: line["loss"] for line in lines} | run.curve
    assert curve == pytest.approx(whole.curve, rel=TOLERANCE)


def test_world_shrinks_and_grows_between_sizes_that_divide_the_batch(train: Trainer) -> None:
    """Two nodes; one dies, and the other goes on alone; then a new one joins it.

    A torchrun that meets again before the dead node is forgotten takes it for alive, and ends after a minute. Its pod
    is started again then, and so it is here.
    """
    meeting = [f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-backend=c10d", "--rdzv-id=grow", "--nnodes=1:2"]
    node = [*torchrun(1)[:-1], *meeting, "--max-restarts=9", "--monitor-interval=0.1"]
    conf = "--rdzv-conf=last_call_timeout=1,is_host="
    keys = ["run=elastic", *ELASTIC, "steps=1200", "checkpoint.every_steps=20", "sequence_length=256"]
    pods = [train.launch([*node, f"{conf}{host}"], *keys) for host in ("true", "false")]

    def saved(step: int) -> Callable[[], bool]:
        """Whether a step is saved; a pod that failed is started again on the way."""

        def reached() -> bool:
            if pods[0].poll():
                pods[0] = train.launch([*node, f"{conf}true"], *keys)
            return bool(newest() >= step)

        return reached

    def newest() -> int:
        names = [path.name.removeprefix("step-") for path in train.folder("elastic").glob("step-*")]
        return max(map(int, names), default=0)

    until(saved(40))
    kill(pods[1])
    until(saved(newest() + 60), seconds=180)
    pods[1] = train.launch([*node, f"{conf}false"], *keys)
    runs = [finished(process, timeout=240) for process in pods]

    assert [run.code for run in runs] == [0, 0], runs[1].errors + runs[0].errors
    result = next(run.result for run in runs if run.lines and "final_loss" in run.result)
    assert (result["steps"], result["samples"], result["world_size"]) == (1200, 9600, 2)


def test_size_that_does_not_divide_is_refused(train: Trainer) -> None:
    run = train("run=three", *ELASTIC, ranks=3)

    assert run.code == 2
    assert (
        "3 ranks cannot train a global batch of 8: from 1 nodes of 3 ranks on, the sizes that divide it are none"
        in run.errors
    )
