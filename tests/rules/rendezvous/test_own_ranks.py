"""Programs that start the ranks of a node themselves."""

import pytest

from tests.rules.communication.jobs import PYTORCH
from tests.rules.judging import judge

PLAIN = (PYTORCH % ("", "", "")).replace("[torchrun, train.py]", "[python, tune.py, ARGUMENTS]")


@pytest.mark.parametrize(
    "arguments",
    [
        "--num_nodes=4, --gpus_per_node=8",
        "--num-gpus, '8'",
        "trainer.devices=8, trainer.num_nodes=4",
        "--devices, '8'",
        "--multiprocessing-distributed",
        "--nproc_per_node, '8'",
        "fit, --trainer.strategy, fsdp",
    ],
)
def test_a_program_that_is_told_of_a_nodes_devices_starts_its_ranks(arguments: str) -> None:
    assert judge("RDV009", PLAIN.replace("ARGUMENTS", arguments)) == []


@pytest.mark.parametrize("arguments", ["--batch-size, '8'", "--device, cuda", "--nodes, '4'", "--gpu-memory, '0.9'"])
def test_one_that_is_not_told_runs_one(arguments: str) -> None:
    assert len(judge("RDV009", PLAIN.replace("ARGUMENTS", arguments))) == 1
