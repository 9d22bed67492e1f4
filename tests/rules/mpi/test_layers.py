"""What the message layers of Open MPI load: ENV025 says what mpirun does."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.rules.communication.jobs import MPI
from tests.rules.judging import judge

START = """
import ctypes
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
mpi.MPI_Finalize()
"""


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (Debian: openmpi-bin)")
@pytest.mark.parametrize(
    "options",
    [
        "--mca pml ucx -x UCX_TLS=tcp",
        "--mca pml ucx -x UCX_TLS=tcp -x UCX_NET_DEVICES=lo",
        "--mca pml ucx -x UCX_TLS=tcp --mca pml_ucx_tls any --mca pml_ucx_devices any",
        "--mca pml ob1 -x UCX_TLS=tcp",
        "--mca btl tcp",
        "--mca btl tcp,self",
    ],
)
def test_what_is_said_of_layers_is_what_open_mpi_does(options: str) -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": "/tmp"}
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-np", "2", *options.split(), sys.executable, "-c", START],
        env={**os.environ, **root},
        capture_output=True,
        text=True,
        timeout=120,
    )

    said = judge("ENV025", MPI % (", ".join(map(repr, options.split())), ""))

    assert bool(said) == (done.returncode != 0), done.stderr
