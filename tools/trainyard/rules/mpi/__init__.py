"""MPI jobs: what mpirun starts, where, with which environment, and whether it gets there: MPI001 and up."""
