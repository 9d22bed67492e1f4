"""Rules on what Git can track, and on what a job folder may hold: GIT001 and up."""

from trainyard.rules.gitops import annotations, folder, tracked

__all__ = ["annotations", "folder", "tracked"]
