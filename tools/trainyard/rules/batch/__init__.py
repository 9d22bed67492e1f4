"""Rules on batch sizes, learning rate and schedule: BAT001 and up."""
