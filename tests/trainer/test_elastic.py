"""torchrun's elastic mode: the world shrinks and grows, and the global batch stays."""

import json
import signal
import time

import psutil
import pytest

from tests.trainer.conftest import Trainer, ended, free_port, lines_of, torchrun, until
from tests.trainer.ranks import Launched
from tests.trainer.test_parallel import TOLERANCE

pytestmark = pytest.mark.torch

ELASTIC = ("min_nodes=1", "nodes=4")


@pytest.mark.long
def test_killed_rank_costs_the_steps_since_the_last_checkpoint(train: Trainer) -> None:
    keys = ["run=restarted", *ELASTIC, "steps=100", "checkpoint.every_steps=10"]
    whole = train("run=whole", *keys[1:])
    node = train.launch(torchrun(2, "--max-restarts=3", "--monitor-interval=0.1"), *keys, ranks=2)
    until(lambda: len(lines_of(node.out)) >= 25)
    rank = psutil.Process(node.process.pid).children()[-1]

    rank.kill()
    run = ended(node)

    assert run.code == 0, run.errors
    assert run.result["resumed_from"] >= 20
    assert run.curve == pytest.approx(whole.curve, rel=TOLERANCE)


@pytest.mark.long
@pytest.mark.claim("elastic-keeps-the-batch")
def test_world_shrinks_and_grows_between_sizes_that_divide_the_batch(train: Trainer) -> None:
    """Two nodes; one dies, and the other goes on alone; then a new one joins it.

    A torchrun that meets again before the dead node is forgotten takes it for alive, and ends after a minute. Its pod
    is started again then, and so it is here.
    """
    meeting = [f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-backend=c10d", "--rdzv-id=grow", "--nnodes=1:2"]
    node = [*torchrun(1)[:-1], *meeting, "--max-restarts=9", "--monitor-interval=0.1"]
    keys = ["run=elastic", *ELASTIC, "steps=100000", "checkpoint.every_steps=10", "sequence_length=128"]
    started: list[Launched] = []

    def pod(is_host: bool) -> Launched:
        conf = f"--rdzv-conf=last_call_timeout=1,is_host={str(is_host).lower()}"
        started.append(train.launch([*node, conf], *keys))
        return started[-1]

    host, other = pod(is_host=True), pod(is_host=False)

    def saved() -> tuple[int, int]:
        """The newest checkpoint's step and world size."""
        manifest = max(train.folder("elastic").glob("step-*/manifest.json"), default=None)
        content = json.loads(manifest.read_text()) if manifest else {}
        return content.get("step", 0), content.get("world_size", 0)

    def until_saved(by: int) -> None:
        """Waits for a checkpoint by so many ranks, later than the newest one."""
        nonlocal host
        end, (since, _) = time.monotonic() + 240, saved()
        while saved()[1] != by or saved()[0] <= since:
            assert time.monotonic() < end, "".join(each.errors for each in started)
            if host.process.poll():
                host = pod(is_host=True)
            time.sleep(0.1)

    try:
        until_saved(by=2)
        other.kill()
        until_saved(by=1)
        pod(is_host=False)
        until_saved(by=2)
    finally:
        for each in started:
            each.kill()

    curve = {line["step"]: line["loss"] for each in started for line in lines_of(each.out)}
    alone = train.start("run=alone", *keys[1:], "checkpoint.every_steps=100000")
    until(lambda: len(lines_of(alone.out)) >= max(curve))
    alone.send(signal.SIGKILL)
    alone.wait()
    whole = {line["step"]: line["loss"] for line in lines_of(alone.out) if line["step"] <= max(curve)}
    assert curve == pytest.approx(whole, rel=1e-3)  # hundreds of steps, in which what rounding did grows


@pytest.mark.claim("size-that-does-not-divide")
def test_size_that_does_not_divide_is_refused(train: Trainer) -> None:
    run = train("run=three", *ELASTIC, ranks=3)

    assert run.code == 2
    assert (
        "3 ranks cannot train a global batch of 8: from 1 nodes of 3 ranks on, the sizes that divide it are none"
        in run.errors
    )
