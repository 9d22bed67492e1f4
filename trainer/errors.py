"""Errors that a user can mend, each with the exit code that a controller sees, and printed as one line."""


class TrainerError(Exception):
    """Ends the run with one readable line."""

    code = 3


class ConfigError(TrainerError):
    """A key is unknown or its value does not fit: trying again does not help."""

    code = 2


class DataError(TrainerError):
    """The dataset is missing, damaged, or does not fit the model."""

    code = 4


class NonFiniteError(TrainerError):
    """The loss or the gradient is not a finite number any more; the last checkpoint is from before that."""

    code = 5


class CheckpointError(TrainerError):
    """Checkpoints cannot be written or read."""

    code = 6


class PeerLostError(TrainerError):
    """Another rank or the launcher is gone, so that this one cannot go on; whoever started them starts them again."""

    code = 7


class NoUsableCheckpointError(TrainerError):
    """The run has checkpoints and none is usable: starting at step 1 would lose them, so somebody has to say so."""

    code = 8


class StorageError(TrainerError):
    """Storage did not give a checkpoint that is there: that is no damage, so nothing is skipped for it."""

    code = 9


class Preempted(TrainerError):
    """The run was told to stop, saved, and ended: start it again and it goes on."""

    code = 75  # EX_TEMPFAIL of sysexits.h
