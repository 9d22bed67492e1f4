"""MPI jobs: what mpirun starts, where, with which environment, and whether it gets there: MPI001 and up."""

from trainyard.rules.mpi import arguments, hosts, ports, sessions, slots, ssh, taken
from trainyard.rules.mpi.slots import mpi_ranks_per_worker

__all__ = ["arguments", "hosts", "mpi_ranks_per_worker", "ports", "sessions", "slots", "ssh", "taken"]
