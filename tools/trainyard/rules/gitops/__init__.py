"""Rules on what Git can track, on what a job folder may hold, and on the folders that GitOps applies: GIT001 and up."""
