"""Every launcher that a base uses really trains two workers, to the same loss."""

import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.trainer.conftest import HOME, Run, Trainer, ended, environment, free_port, torchrun
from tests.trainer.ranks import Launched, Started
from tests.trainer.test_parallel import TOLERANCE
from trainer import launch
from trainer.errors import ConfigError
from trainer.launch import Ranks

pytestmark = [pytest.mark.torch, pytest.mark.drawn]


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({}, Ranks(0, 1, 0, 1, "alone")),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"},
         Ranks(5, 8, 1, 4, "torchrun")),
        ({"RANK": "1", "WORLD_SIZE": "4"}, Ranks(1, 4, 0, 1, "environment")),  # PyTorchJob without torchrun
        ({"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1"}, Ranks(1, 2, 0, 1, "PET")),  # TrainJob
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
          "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, Ranks(3, 4, 1, 2, "mpirun")),
    ],
)  # fmt: skip
def test_ranks_are_what_the_launcher_says(variables: dict[str, str], ranks: Ranks) -> None:
    assert launch.find(variables) == ranks


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "x", "WORLD_SIZE": "4"}, "environment RANK is a whole number, not 'x'"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "environment says rank 4 of 4, local rank 0 of 1"),
        ({"PET_NODE_RANK": "0", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "8"},
         "PET_NPROC_PER_NODE is 8, and python starts one rank a pod: start torchrun instead"),
    ],
)  # fmt: skip
def test_ranks_that_cannot_be_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        launch.find(variables)

    assert str(error.value) == message


def test_nodes_without_a_meeting_point_are_refused() -> None:
    ranks = Ranks(0, 4, 0, 2, "mpirun")
    with pytest.raises(ConfigError, match="mpirun started 4 ranks on several nodes: set MASTER_ADDR to rank 0's host"):
        launch.set_meeting_point(ranks, {})


MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (Debian: openmpi-bin)")
def test_mpirun(train: Trainer, one_rank: Run) -> None:
    run = ended(train.launch(MPIRUN, "run=mpi", ranks=2, MASTER_PORT=str(free_port())))

    assert run.code == 0, run.errors
    assert run.result["world_size"] == 2
    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (Debian: openmpi-bin)")
def test_mpirun_ends_with_the_code_of_the_rank_that_failed(train: Trainer) -> None:
    run = ended(train.launch(MPIRUN, "micro_bach=3"))

    assert run.code == 2
    assert "unknown key micro_bach; did you mean micro_batch?" in run.errors


def test_torchrun(train: Trainer, one_rank: Run) -> None:
    run = ended(train.launch(torchrun(2), "run=torchrun", ranks=2))

    assert run.code == 0, run.errors
    assert run.result["world_size"] == 2
    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.parametrize("operator", ["PyTorchJob", "TrainJob"])
def test_operators_variables_without_torchrun(train: Trainer, one_rank: Run, operator: str) -> None:
    """A pod a rank, each with the variables that the operator gives it."""
    port = str(free_port())
    if operator == "PyTorchJob":
        settings = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        places = [environment(RANK=rank, **settings) for rank in ("0", "1")]
    else:
        settings = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1"}
        settings |= {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port}
        places = [environment(PET_NODE_RANK=rank, **settings) for rank in ("0", "1")]

    run = ended(Started("trainer", train.arguments([f"run={operator.lower()}"], 2), places))

    assert run.code == 0, run.errors
    assert run.curve == pytest.approx(one_rank.curve, rel=TOLERANCE)


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
@pytest.mark.long
def test_ray(train: Trainer, one_rank: Run) -> None:
    """Where nobody names a cluster the run has one of its own, whatever `ray start` has left behind on the machine."""
    for attempt in range(3):  # Ray gives its own processes 30 s to start, however busy the machine is
        run = _ray(train, f"run=ray-{attempt}")
        if "The current node timed out during startup" not in run.errors:
            break

    assert run.code == 0, run.errors
    assert run.result["world_size"] == 2
    assert run.result["final_loss"] == pytest.approx(one_rank.result["final_loss"], rel=TOLERANCE)


def _ray(train: Trainer, *keys: str) -> Run:
    """Two workers of a Ray whose files lie in a folder of their own, with the address of a cluster that is gone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a short one, for sockets
        Path(folder, "ray_current_cluster").write_text("192.0.2.1:6379")
        settings = {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"}  # nothing is left in /tmp and in HOME
        return ended(train.launch([sys.executable], "--workers=2", *keys, ranks=2, module="trainer.ray", **settings))


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
def test_ray_workers_keep_settings_of_their_own(train: Trainer) -> None:
    """A head has no dataset and no policies mounted, so what says where they are stands in the workers' pods alone."""
    given = {"arguments": train.arguments([]), "environment": {"TRAINER_RUN": "of-the-driver"}}
    worker = f"from trainer.ray import worker; worker({given})"
    own = environment(TRAINER_CHECKPOINT_KEEP="1", TRAINER_RUN="of-the-worker")

    run = ended(Launched([sys.executable, "-c", worker], own, HOME))

    assert run.code == 0, run.errors
    assert [path.name for path in train.folder("of-the-driver").glob("step-*")] == ["step-000000012"]
    assert not train.folder("of-the-worker").exists()
