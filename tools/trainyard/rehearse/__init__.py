"""The rehearsal: a job's pods as processes on one machine."""
