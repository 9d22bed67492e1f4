"""A forecast of a training job before it runs: memory, time of a step, cost, checkpoints."""
