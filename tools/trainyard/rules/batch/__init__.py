"""Rules on batch sizes, learning rate and schedule: BAT001 and up."""

from trainyard.rules.batch import deepspeed, elastic, identity, precision, program, schedule

__all__ = ["deepspeed", "elastic", "identity", "precision", "program", "schedule"]
