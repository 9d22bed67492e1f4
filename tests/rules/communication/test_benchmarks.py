"""Programs that measure collectives: what is pinned there is what they are run for."""

import pytest

from tests.rules.communication.jobs import MPI
from tests.rules.judging import judge


@pytest.mark.parametrize(
    ("program", "algorithms", "said"),
    [
        ("all_reduce_perf", "Tree", []),
        ("/opt/nccl-tests/build/all_reduce_perf", "COLLNETCHAIN", []),
        ("all_reduce_perf", "NVLS,NVLSTree", []),
        ("all_reduce_perf", "PAT", ["NCCL_ALGO is PAT, which leaves allreduce without an algorithm"]),
        ("all_gather_perf", "PAT", []),
        ("all_gather_perf", "Tree", ["NCCL_ALGO is Tree, which leaves allgather without an algorithm"]),
        ("reduce_scatter_perf", "NVLS", []),
        ("broadcast_perf", "NVLS", ["NCCL_ALGO is NVLS, which leaves broadcast without an algorithm"]),
        ("sendrecv_perf", "Tree", []),
        ("python, train.py", "Tree", ["NCCL_ALGO is Tree, which leaves some collectives without an algorithm"]),
        ("python, train.py", "PAT", ["NCCL_ALGO is PAT, which leaves some collectives without an algorithm"]),
        ("python, train.py", "Tree,Ring", []),
    ],
)
def test_algorithms_are_held_against_the_collective_that_is_measured(
    program: str, algorithms: str, said: list[str]
) -> None:
    job = (MPI % (f"-x, 'NCCL_ALGO={algorithms}'", "")).replace("all_reduce_perf", program)
    where = "MPIJob/bench spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[6]"
    assert judge("NCL037", job) == [f"error: {message} @ {where}" for message in said]


@pytest.mark.parametrize(("rule", "exported"), [("NCL007", "NCCL_DEBUG=INFO"), ("NCL011", "NCCL_PROTO=Simple")])
def test_what_slows_a_training_is_information_about_a_benchmark(rule: str, exported: str) -> None:
    job = MPI % (f"-x, {exported}", "")

    assert [said.split(":")[0] for said in judge(rule, job)] == ["info"]
    assert [said.split(":")[0] for said in judge(rule, job.replace("all_reduce_perf", "python, t.py"))] == ["warning"]
