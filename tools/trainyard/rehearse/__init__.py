"""Runs the rendered pods of a job as processes on this machine, scaled down, before a cluster does."""
