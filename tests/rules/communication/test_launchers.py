"""What mpirun passes on to its ranks."""

import pytest

from tests.rules.communication.jobs import MPI
from tests.rules.judging import judge

LAUNCHER_ENV = MPI.replace("command: [mpirun", "env: [%s]\n            command: [mpirun")


@pytest.mark.parametrize(
    ("env", "words", "lost"),
    [
        ("{name: NCCL_IB_HCA, value: mlx5}", "-x, HOME", "NCCL_IB_HCA is set"),
        ("{name: HF_HOME, value: /data}, {name: MODEL, value: x}", "-x, HOME", "HF_HOME and MODEL are set"),
        ("{name: NCCL_IB_HCA, value: mlx5}", "-x, NCCL_IB_HCA", ""),
        ("{name: NCCL_IB_HCA, value: mlx5}", "--mca, mca_base_env_list, NCCL_IB_HCA;PATH", ""),
        ("{name: NCCL_IB_HCA, value: mlx5}", "--mca, plm_rsh_agent, /etc/mpi/kubexec.sh", ""),
        (
            "{name: FLAGS, valueFrom: {secretKeyRef: {name: site, key: flags}}}, {name: NCCL_IB_HCA, value: mlx5}",
            "$(FLAGS)",
            "",
        ),
        ("{name: OMPI_MCA_btl, value: 'tcp,self'}, {name: PYTHONUNBUFFERED, value: '1'}", "-x, HOME", ""),
    ],
)
def test_what_mpirun_passes_on(env: str, words: str, lost: str) -> None:
    found = judge("ENV024", LAUNCHER_ENV % (env, words, ""))
    assert [line.partition(", but")[0] for line in found] == ([f"error: {lost}"] if lost else [])


def test_variables_of_a_worker_that_only_serves_ssh_are_lost_too() -> None:
    worker = (
        "name: worker\n            command: [/usr/sbin/sshd, -De]\n            env: [{name: NCCL_IB_HCA, value: mlx5}]"
    )
    assert judge("ENV024", MPI.replace("name: worker", worker) % ("-x, HOME", "")) == [
        "error: NCCL_IB_HCA is set, but mpirun starts the ranks without it"
        " @ MPIJob/bench spec.mpiReplicaSpecs.Worker.template.spec.containers[0].env[NCCL_IB_HCA].value"
    ]
    entry = worker.replace("[/usr/sbin/sshd, -De]", "[/scripts/worker.sh]")
    assert judge("ENV024", MPI.replace("name: worker", entry) % ("-x, HOME", "")) == []
