"""The steps of the benchmark chain: check nodes, make a job of the bases, collect what it measured, assemble a run."""
