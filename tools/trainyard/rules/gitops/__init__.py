"""Rules on what Git can track, on what a job folder may hold, and on the folders that GitOps applies: GIT001 and up."""

from trainyard.rules.gitops import annotations, entries, folder, teams, tracked

__all__ = ["annotations", "entries", "folder", "teams", "tracked"]
